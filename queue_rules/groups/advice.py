"""When to add consumers, partitions or nodes: a pure rule over how the lag of groups goes.

Given are two looks at all groups. A group falls behind when its lag rises by more
than a twentieth of what comes in, or would need more than a quarter of an hour to be gone. Then:

- nobody consumes: start somebody;
- a stream group with fewer members than partitions: more consumers, one partition each at most;
- a stream group of which one partition alone falls behind: its key, or keys, get too much;
- a stream group with a member for each partition: more partitions, and as many consumers;
- a queue group: more workers, they share partitions;
- a node of which every group falls behind, while others do not, or whose members take all of its
  threads: more nodes.

How many: as many times as many as what comes in is of what is done now, and a quarter to spare.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakequeue.wire import Advice, AdviceAnswer, Course, GroupDescription, PartitionState, Trend

RISES = 0.05
"""Of what comes in: a lag that rises by less is noise."""
LEAST_LAG = 100
"""Records: a shorter queue is no reason to add anything."""
LEAST_LAG_S = 2.0
"""Of input: a batch that is under way is no lag."""
TOO_LONG_S = 900.0
SPARE = 1.25
HOT = 0.8
"""Part of the rise that one partition has to have to be called hot."""
CROWDED = 0.8
"""Part of a node's threads that its members may take."""


_Place = tuple[str, str | None, str, int]
"""(group, topic_id, topic, partition)"""


@dataclass(frozen=True, slots=True)
class Past:
    """What of an earlier look is compared with: little, as many of them may be kept."""

    at_s: float
    places: Mapping[_Place, tuple[int, int]]
    """-> (end offset, lag)"""


@dataclass(frozen=True, slots=True)
class Look:
    """All groups at one moment."""

    at_s: float
    """Any clock that does not go back."""
    groups: Sequence[GroupDescription]

    def past(self) -> Past:
        """As a later look needs it."""
        return Past(
            self.at_s,
            {
                _place(group.group, row): (row.end_offset, row.lag)
                for group in self.groups
                for row in group.partitions
            },
        )


def _place(group: str, row: PartitionState) -> _Place:
    return group, row.topic_id, row.topic, row.partition


@dataclass(frozen=True, slots=True)
class _Partition:
    """One partition of a group, at the first and at the last look."""

    number: int
    end_before: int
    lag_before: int
    after: PartitionState
    seconds: float

    @property
    def came_per_s(self) -> float:
        return max(0, self.after.end_offset - self.end_before) / self.seconds

    @property
    def lag_per_s(self) -> float:
        return (self.after.lag - self.lag_before) / self.seconds


@dataclass(frozen=True, slots=True)
class _Work:
    """A group on a topic: what was seen, and what it comes to."""

    trend: Trend
    partitions: list[_Partition]
    nodes: frozenset[str]
    held_back: str | None

    @property
    def needed(self) -> int:
        """Members that would keep up, if all do as much as those that work now."""
        trend = self.trend
        busy = trend.members
        if trend.mode == "stream":
            busy = min(busy, trend.partitions)
        if trend.out_per_s <= 0:
            return max(2 * busy, 1)
        return max(busy + 1, math.ceil(busy * trend.in_per_s / trend.out_per_s * SPARE))

    @property
    def behind(self) -> bool:
        return self.trend.course == "falling_behind"

    @property
    def hot(self) -> _Partition | None:
        """The one partition that falls behind, where the others keep up."""
        worst = max(self.partitions, key=lambda p: p.lag_per_s)
        rises = sum(max(0.0, p.lag_per_s) for p in self.partitions)
        alone = len(self.partitions) > 1 and rises > 0
        return worst if alone and worst.lag_per_s >= HOT * rises else None


def advise(first: Past | None, last: Look | None, threads: int) -> AdviceAnswer:
    """What to add, by two looks (None: not yet); `threads`: polls that a node can hold. Pure."""
    if first is None or last is None or last.at_s <= first.at_s:
        return AdviceAnswer(over_s=0.0, advice=[], trends=[])
    works = [work for group in last.groups for work in _works(group, first, last)]
    advice = [found for work in works if (found := _for_group(work)) is not None]
    advice += _for_nodes(works, last.groups, threads)
    seconds = last.at_s - first.at_s
    return AdviceAnswer(over_s=seconds, advice=advice, trends=[work.trend for work in works])


def course_of(lag: int, lag_per_s: float, in_per_s: float, out_per_s: float) -> Course:
    """How a lag goes. Pure."""
    if lag == 0 and in_per_s == 0:
        return "idle"
    if lag < max(LEAST_LAG, LEAST_LAG_S * in_per_s):
        return "steady"
    if out_per_s <= 0 and lag_per_s == 0:
        return "stuck"
    if lag_per_s > RISES * in_per_s or lag_per_s > 0 >= out_per_s:
        return "falling_behind"
    if lag_per_s >= 0:
        return "steady"
    return "falling_behind" if lag / -lag_per_s > TOO_LONG_S else "catching_up"


def _works(group: GroupDescription, first: Past, last: Look) -> Iterable[_Work]:
    by_topic: dict[str, list[_Partition]] = defaultdict(list)
    seconds = last.at_s - first.at_s
    for row in group.partitions:
        # A partition that was born meanwhile has no course yet; a paused one is meant to wait.
        was = first.places.get(_place(group.group, row))
        if was is not None and not row.paused:
            by_topic[row.topic].append(_Partition(row.partition, *was, row, seconds))
    for topic, partitions in by_topic.items():
        lag = sum(p.after.lag for p in partitions)
        lag_per_s = sum(p.lag_per_s for p in partitions)
        in_per_s = sum(p.came_per_s for p in partitions)
        out_per_s = max(0.0, in_per_s - lag_per_s)
        members = [member for member in group.members if topic in member.topics]
        trend = Trend(
            group=group.group,
            topic=topic,
            mode=group.mode,
            course=course_of(lag, lag_per_s, in_per_s, out_per_s),
            members=len(members),
            partitions=len(partitions),
            lag=lag,
            lag_per_s=round(lag_per_s, 1),
            in_per_s=round(in_per_s, 1),
            out_per_s=round(out_per_s, 1),
        )
        held_back = next((p.after.held_back for p in partitions if p.after.held_back), None)
        nodes = frozenset(member.node for member in members if member.node is not None)
        yield _Work(trend, partitions, nodes, held_back)


def _for_group(work: _Work) -> Advice | None:
    trend = work.trend
    about = {"group": trend.group, "topic": trend.topic}
    name = f"group {trend.group} on {trend.topic}"
    if trend.course == "stuck" and trend.members:
        why = f": {work.held_back}" if work.held_back else ""
        return Advice(
            add="consumers",
            **about,
            detail=f"{name}: {trend.lag} records wait and none is settled{why}",
            do=f"look at its {trend.members} consumers: lakequeue group describe {trend.group}",
        )
    if trend.course not in {"falling_behind", "stuck"}:
        return None
    rates = (
        f"{name} falls behind: {trend.in_per_s:g}/s come, {trend.out_per_s:g}/s are done, "
        f"{trend.lag} wait"
    )
    if not trend.members:
        said = f"{name}: {trend.lag} records wait and nobody consumes"
        # Never `lakequeue consume`: that would take the records from the application.
        do = f"start the application that consumes as group {trend.group}"
        return Advice(add="consumers", **about, to=1, detail=said, do=do)
    if trend.mode == "queue":
        detail = f"{rates}; {trend.members} workers"
        do = f"start {work.needed - trend.members} more"
        return Advice(add="consumers", **about, to=work.needed, detail=detail, do=do)
    hot = work.hot
    if hot is not None and trend.members > 1:
        return Advice(
            add="keys",
            **about,
            detail=f"{rates}; it is partition {hot.number} alone, with {hot.came_per_s:g}/s",
            do="spread its records over more keys: a key, and so a partition, has one consumer",
        )
    if trend.members < trend.partitions:
        to = min(work.needed, trend.partitions)
        detail = f"{rates}; {trend.members} consumers share {trend.partitions} partitions"
        do = f"start {to - trend.members} more"
        return Advice(add="consumers", **about, to=to, detail=detail, do=do)
    detail = f"{rates}; each of its {trend.partitions} partitions has a consumer of its own"
    do = f"lakequeue topic alter {trend.topic} -p {work.needed}, then as many consumers"
    return Advice(add="partitions", **about, to=work.needed, detail=detail, do=do)


def _for_nodes(
    works: Sequence[_Work], groups: Sequence[GroupDescription], threads: int
) -> Iterable[Advice]:
    members: dict[str, int] = defaultdict(int)
    for group in groups:
        for member in group.members:
            if member.node is not None:
                members[member.node] += 1
    for node, count in sorted(members.items()):
        if count > CROWDED * threads:
            yield Advice(
                add="nodes",
                node=node,
                to=math.ceil(sum(members.values()) / (CROWDED * threads)),
                detail=f"node {node} has {count} members and {threads} threads for their polls",
                do="add a consumer-service node, or raise consumer.threads",
            )
            continue
        alone = [work for work in works if work.nodes == {node}]
        others = [work for work in works if work.nodes and node not in work.nodes]
        kept_up = any(work.trend.course in {"steady", "catching_up"} for work in others)
        if len(alone) > 1 and kept_up and all(work.behind for work in alone):
            yield Advice(
                add="nodes",
                node=node,
                to=len(members) + 1,
                detail=f"all {len(alone)} groups whose members are at node {node} fall behind, "
                "and groups at other nodes do not",
                do="add a consumer-service node, or move members off it",
            )
