"""Is it moving, and what needs a person: in words, with the way to mend it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from console.rules.exposition import Scrape
from console.rules.flow import GroupLag
from console.rules.found import ASKING, Failed
from console.rules.rates import Point
from lakequeue.metrics.consumer import DEAD_LETTERS
from lakequeue.metrics.ingest import INGEST_FAULTY

Level = Literal["stuck", "warn", "note"]
_LITTLE = 0.05
"""Records a second: less counts as nothing."""
_COURSES = {
    "stuck": "is stuck: records wait and none is settled",
    "falling_behind": "falls behind",
}


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing to look at."""

    level: Level
    what: str
    fix: str = ""
    about: str = ""
    """Path of the page that shows more."""


class Looked(Protocol):
    """A process, as far as it is judged here."""

    @property
    def role(self) -> str:
        """ingest, consumer or driver."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def state(self) -> str:
        """ready, warns, not_ready, silent or refused."""

    @property
    def why(self) -> tuple[str, ...]:
        """What it says."""

    @property
    def leads(self) -> tuple[str, ...]:
        """Which elections it has won."""


class Counted(Protocol):
    """A process and what it counts."""

    @property
    def scrape(self) -> Scrape:
        """Its metrics."""


def of_processes(each: Sequence[Looked]) -> Iterator[Concern]:
    """Who is gone, who is not ready, and who ought to lead."""
    for one in each:
        if one.state == "silent":
            fix = "see its log and start it again: `lakequeue up` does that by itself"
            yield Concern("stuck", f"{one.name} does not answer", fix)
        elif one.state == "not_ready":
            yield Concern("stuck", f"{one.name} is not ready: {'; '.join(one.why)}", _LOG)
        elif one.state == "warns":
            yield from (
                Concern("warn", f"{one.name}: {why}", "lakequeue doctor") for why in one.why
            )
    drivers = [one for one in each if one.role == "driver"]
    if any(one.state == "refused" for one in drivers):
        return
    for election, said in (("order", "nothing is ordered"), ("offsets", "no position is folded")):
        if drivers and not any(election in one.leads for one in drivers):
            what = f"{said}: no driver leads the {election} job"
            yield Concern("stuck", what, "lakequeue run driver, or see the log of the driver")


_LOG = "its log says more; `lakequeue doctor` looks at all that it needs"


def of_order(point: Point | None) -> Iterator[Concern]:
    """Whether what comes in is ordered."""
    if point is None:
        return
    comes, ordered = point.rates.get("in"), point.rates.get("ordered")
    waits = point.levels.get("backlog") or 0
    if comes is not None and ordered is not None and waits >= 1 and ordered < _LITTLE:
        what = f"{waits:.0f} records are acknowledged and none is ordered"
        yield Concern(
            "stuck", what, "see the driver above; `lakequeue doctor` names shards that wait"
        )


def of_groups(advice: Mapping[str, Any] | None) -> Iterator[Concern]:
    """Groups that fall behind or are stuck, and what to add."""
    if advice is None:
        return
    told: set[tuple[str | None, str | None]] = set()
    for one in advice.get("advice", ()):
        told.add((one.get("group"), one.get("topic")))
        about = f"/groups/{one['group']}" if one.get("group") else ""
        yield Concern("warn", one["detail"], one["do"], about)
    for trend in advice.get("trends", ()):
        said = _COURSES.get(trend["course"])
        if said and (trend["group"], trend["topic"]) not in told:
            level: Level = "stuck" if trend["course"] == "stuck" else "warn"
            what = f"{trend['group']} on {trend['topic']} {said}; lag {trend['lag']}"
            fix = "look at its members and at what they do with the records"
            yield Concern(level, what, fix, f"/groups/{trend['group']}")


def of_deaths(each: Iterable[Counted]) -> Iterator[Concern]:
    """Records that died, as far as the processes that run now have counted them."""
    died: dict[str, float] = {}
    faulty = 0.0
    for one in each:
        faulty += one.scrape.total(INGEST_FAULTY.name) or 0
        for labels, count in one.scrape.all(DEAD_LETTERS.name).items():
            group = dict(labels).get("group", "")
            died[group] = died.get(group, 0) + count
    for group, count in sorted(died.items()):
        if count:
            what = f"{count:.0f} records of the group {group} have died since its nodes started"
            yield Concern("note", what, _DEAD, "/dead-letters")
    if faulty:
        what = f"{faulty:.0f} values that were sent are not of the schemas of their topics"
        fix = "mend who sends them; `lakequeue dlq list` has those that went to dead letters"
        yield Concern("note", what, fix, "/dead-letters")


_DEAD = "`lakequeue dlq list` says why; send them back when that is mended"


def of_idle(lags: Iterable[GroupLag], groups: Iterable[Mapping[str, Any]]) -> Iterator[Concern]:
    """Groups that have records to get and nobody who gets them."""
    modes = {one["group"]: one.get("mode") for one in groups}
    waits: dict[str, int] = {}
    for row in lags:
        if row.members == 0 and row.lag > 0:
            waits[row.group] = waits.get(row.group, 0) + row.lag
    for group, lag in waits.items():
        about = f"/groups/{group}"
        if modes.get(group) == "queue":
            what = f"the queue {group} has no worker, and {lag} records wait"
            yield Concern("warn", what, "start a worker; or delete the group", about)
        else:
            what = f"the group {group} has no consumer, and is {lag} records behind"
            fix = "start a consumer, or delete the group. (A query of Spark is no member.)"
            yield Concern("note", what, fix, about)


def of_parts(failed: Iterable[tuple[str, Failed | None]]) -> Iterator[Concern]:
    """What could not be asked for."""
    for what, why in failed:
        if why is not None and why.code != ASKING:
            yield Concern("warn", f"{what} cannot be shown: {why.detail}", why.hint)


def verdict(
    each: Sequence[Looked], point: Point | None, concerns: Sequence[Concern]
) -> tuple[str, str]:
    """(state, sentence) of the whole queue."""
    if each and all(one.state == "silent" for one in each):
        return "stuck", "No process answers."
    stuck = sum(concern.level == "stuck" for concern in concerns)
    if stuck:
        return "stuck", f"{stuck} {'thing is' if stuck == 1 else 'things are'} stuck."
    if point is None:
        return "note", "Looking: rates are known after the second look."
    rates = [point.rates.get(name) or 0.0 for name in ("in", "ordered", "out")]
    if all(rate < _LITTLE for rate in rates):
        waits = (point.levels.get("backlog") or 0) + (point.levels.get("lag") or 0)
        return (
            ("note", "At rest: nothing comes in, nothing waits.")
            if waits < 1
            else ("warn", "Nothing moves, and records wait.")
        )
    return "ok", "It moves."
