"""What the counters of all processes come to: rates, backlog, lag. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from console.rules.exposition import Scrape
from lakequeue import metrics
from lakequeue.wire import is_internal_group

NAMES = ("in", "ordered", "out")


class Counted(Protocol):
    """A process, as far as it is counted here."""

    @property
    def url(self) -> str:
        """Where it is."""

    @property
    def scrape(self) -> Scrape:
        """What it counts."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group on one topic."""

    group: str
    topic: str
    lag: int
    course: str | None = None
    members: int | None = None
    in_per_s: float | None = None
    out_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class TopicLag:
    """A topic, over all its groups."""

    topic: str
    partitions: int
    lag: int | None
    groups: int


def counters(each: Iterable[Counted]) -> dict[str, dict[str, float]]:
    """What only rises, by name, of each process."""
    found: dict[str, dict[str, float]] = {name: {} for name in NAMES}
    for one in each:
        for name, value in (
            ("in", one.scrape.total(metrics.ingest.INGEST_RECORDS.name)),
            ("ordered", one.scrape.total(metrics.driver.ORDER_RECORDS.name, result="ordered")),
            ("out", one.scrape.total(metrics.consumer.DELIVERED_RECORDS.name)),
        ):
            if value is not None:
                found[name][one.url] = value
    return found


def levels(each: Sequence[Counted]) -> dict[str, float | None]:
    """What waits: acknowledged and not in `log` yet; in `log` and not settled by groups."""
    return {
        "backlog": _sum(one.scrape.total(metrics.ingest.INBOX_RECORDS.name) for one in each),
        "lag": _sum(_lag_of_groups(one.scrape) for one in each),
    }


def _lag_of_groups(scrape: Scrape) -> float | None:
    """Without groups that commands make for themselves: what a redrive has kept moves nobody."""
    found = scrape.all(metrics.driver.GROUP_LAG.name)
    if not found:
        return None
    return sum(v for labels, v in found.items() if not is_internal_group(dict(labels)["group"]))


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def group_lags(
    each: Iterable[Counted],
    advice: Mapping[str, Any] | None,
    groups: Sequence[Mapping[str, Any]],
    *,
    internal: bool = False,
) -> list[GroupLag]:
    """By lag, the largest first: as the offsets job last folded it, else as groups were looked at.

    What the look at groups says beside (course, rates, members) is put with it. `internal`: also
    those that commands make for themselves.
    """
    trends = {(t["group"], t["topic"]): t for t in (advice or {}).get("trends", ())}
    lags: dict[tuple[str, str], int] = {place: int(t["lag"]) for place, t in trends.items()}
    for one in each:
        for labels, value in one.scrape.all(metrics.driver.GROUP_LAG.name).items():
            said = dict(labels)
            lags[said["group"], said["topic"]] = int(value)
    members = {group["group"]: group.get("members") for group in groups}
    found = [
        _lag(group, topic, lag, trends, members)
        for (group, topic), lag in lags.items()
        if internal or not is_internal_group(group)
    ]
    return sorted(found, key=lambda row: (-row.lag, row.group, row.topic))


def _lag(
    group: str,
    topic: str,
    lag: int,
    trends: Mapping[tuple[str, str], Mapping[str, Any]],
    members: Mapping[str, int | None],
) -> GroupLag:
    trend = trends.get((group, topic), {})
    return GroupLag(
        group,
        topic,
        lag,
        trend.get("course"),
        trend.get("members", members.get(group)),
        trend.get("in_per_s"),
        trend.get("out_per_s"),
    )


def topic_lags(topics: Sequence[Mapping[str, Any]], lags: Iterable[GroupLag]) -> list[TopicLag]:
    """By lag, the largest first; topics that no group reads have none."""
    sums: dict[str, list[int]] = {}
    for row in lags:
        sums.setdefault(row.topic, []).append(row.lag)
    found = [
        TopicLag(
            topic["topic"],
            int(topic["partitions"]),
            sum(sums[topic["topic"]]) if topic["topic"] in sums else None,
            len(sums.get(topic["topic"], ())),
        )
        for topic in topics
    ]
    return sorted(found, key=lambda row: (-(row.lag or 0), row.topic))
