"""What may leave `log`, as pure functions.

Whole files go, and of each partition only a prefix: what is left begins at one offset and has no
gaps. A file that holds several topics goes when the last of them lets it; compaction, which cuts
files at topic borders, lets each go by its own rule.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakequeue.clock import Micros
from lakequeue.records import Offset, Partition, Stamp, TopicId
from queue_tables.groups.facts import GroupState
from queue_tables.log.index import PartitionKey

UNCONSUMED = "unconsumed"
"""A live group has not consumed all of it."""
DEDUP = "dedup_window"
"""An id in it may still be asked for."""
SHARED = "shares_a_file"
"""Records of another topic, or of the same one that must stay, are in the same file."""
_NEVER = Stamp(1 << 62)
AFTER_KEPT = "after_kept"
"""Lower offsets of one of its partitions stay."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a closed hour of `log`, and what is in it."""

    path: str
    size: int
    ordered_at: Micros
    """Of its newest record."""
    stamp: Stamp
    """The highest in it."""
    parts: Mapping[PartitionKey, tuple[Offset, Offset]]
    """Lowest and highest offset of each partition."""

    @property
    def topic_ids(self) -> set[TopicId]:
        """The topics that have records in it."""
        return {TopicId(key.topic_id) for key in self.parts}

    @property
    def rows(self) -> int:
        """Records in it."""
        return sum(last - first + 1 for first, last in self.parts.values())

    def bytes_of(self, topic_id: TopicId) -> int:
        """The topic's share of the file's size."""
        mine = sum(b - a + 1 for key, (a, b) in self.parts.items() if key.topic_id == topic_id)
        return self.size * mine // max(1, self.rows)


@dataclass(frozen=True, slots=True)
class Need:
    """The lowest offset that somebody still needs, and who."""

    offset: Offset
    group: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a topic lets go."""

    before: Micros | None = None
    """Records ordered earlier are old enough; None: age is no reason."""
    most_bytes: int | None = None
    """What lies beyond this many bytes of newer records may go; None: size is no reason."""
    stamp_below: Stamp = _NEVER
    """The dedup window needs what is at or above."""
    needed: Mapping[Partition, Need] = field(default_factory=dict)
    """What groups need; empty if the topic expires unconsumed records."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be removed, and why other files that are old enough are not."""

    drop: list[LogFile]
    kept: dict[TopicId, Counter[str]]
    """Files that the topic's limits would let go, by what keeps them."""
    held_by: dict[TopicId, set[str]]
    """Groups that keep files."""


def needs(
    states: Iterable[GroupState],
    partitions: Mapping[TopicId, int],
    forgotten_before: Micros | None = None,
) -> dict[TopicId, dict[Partition, Need]]:
    """What live groups need of each topic (`partitions`: how many it has).

    A group that has a state in one partition of a topic consumes them all: one that nobody of it
    has taken yet is needed from its beginning. A group of which nothing was heard since
    `forgotten_before` is not live.
    """
    everything = list(states)
    heard: dict[str, Micros] = defaultdict(int)
    for state in everything:
        heard[state.group] = max(heard[state.group], state.changed_at)
    found: dict[TopicId, dict[str, dict[Partition, Offset]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for state in everything:
        if not state.deleted and heard[state.group] >= (forgotten_before or 0):
            found[state.topic_id][state.group][state.partition] = state.needed_from
    lowest: dict[TopicId, dict[Partition, Need]] = {}
    for topic_id, groups in found.items():
        lowest[topic_id] = {}
        for group, offsets in groups.items():
            known = max(partitions.get(topic_id, 0), max(offsets) + 1)
            for partition in map(Partition, range(known)):
                need = Need(offsets.get(partition, Offset(0)), group)
                other = lowest[topic_id].get(partition)
                if other is None or need.offset < other.offset:
                    lowest[topic_id][partition] = need
    return lowest


def plan_retention(
    files: Iterable[LogFile],
    limits: Mapping[TopicId, Limits],
    firsts: Mapping[PartitionKey, Offset],
    newer_bytes: Mapping[TopicId, int],
) -> Plan:
    """Which of `files` (of closed hours) go.

    `firsts`: where each partition begins now. `newer_bytes`: what topics with a limit of size have
    in open hours. A topic without limits keeps everything.
    """
    ordered = sorted(files, key=lambda file: (file.ordered_at, file.path), reverse=True)
    by_size = _beyond_size(ordered, limits, newer_bytes)
    plan = Plan([], defaultdict(Counter), defaultdict(set))
    free: list[LogFile] = []
    for file in ordered:
        expired = {t for t in file.topic_ids if _expired(file, t, limits, by_size)}
        reasons = {topic_id: _holds(file, topic_id, limits, plan) for topic_id in expired}
        if expired == file.topic_ids and not any(reasons.values()):
            free.append(file)
            continue
        for topic_id, reason in reasons.items():
            plan.kept[topic_id][reason or SHARED] += 1
    prefix = _prefixes(free, firsts)
    plan.drop.extend(sorted(prefix, key=lambda file: (file.ordered_at, file.path)))
    gone = {file.path for file in prefix}
    for file in free:
        if file.path not in gone:
            for topic_id in file.topic_ids:
                plan.kept[topic_id][AFTER_KEPT] += 1
    return plan


def _beyond_size(
    newest_first: Sequence[LogFile],
    limits: Mapping[TopicId, Limits],
    newer_bytes: Mapping[TopicId, int],
) -> set[tuple[str, TopicId]]:
    """(path, topic) where newer files alone hold as many bytes as the topic may have."""
    beyond: set[tuple[str, TopicId]] = set()
    newer = Counter(newer_bytes)
    for file in newest_first:
        for topic_id in file.topic_ids:
            most = limits.get(topic_id, Limits()).most_bytes
            if most is not None:
                if newer[topic_id] >= most:
                    beyond.add((file.path, topic_id))
                newer[topic_id] += file.bytes_of(topic_id)
    return beyond


def _expired(
    file: LogFile,
    topic_id: TopicId,
    limits: Mapping[TopicId, Limits],
    by_size: set[tuple[str, TopicId]],
) -> bool:
    before = limits.get(topic_id, Limits()).before
    return (before is not None and file.ordered_at < before) or (file.path, topic_id) in by_size


def _holds(
    file: LogFile, topic_id: TopicId, limits: Mapping[TopicId, Limits], plan: Plan
) -> str | None:
    """What keeps the topic's records in the file, though they are old enough."""
    limit = limits[topic_id]
    for key, (_, last) in file.parts.items():
        need = limit.needed.get(Partition(key.partition)) if key.topic_id == topic_id else None
        if need is not None and last >= need.offset:
            plan.held_by[topic_id].add(need.group)
            return UNCONSUMED
    return DEDUP if file.stamp >= limit.stamp_below else None


def _prefixes(free: Sequence[LogFile], firsts: Mapping[PartitionKey, Offset]) -> list[LogFile]:
    """The largest set of `free` files that is a prefix of each partition in it.

    Offsets have no gaps, so files that follow each other from the first offset on are all there
    is. A file that does not follow stays, and then so does what comes after it in any of its
    partitions: again, until nothing changes.
    """
    left = {file.path: file for file in free}
    while True:
        stuck: set[str] = set()
        by_key: dict[PartitionKey, list[tuple[Offset, Offset, str]]] = defaultdict(list)
        for file in left.values():
            for key, (first, last) in file.parts.items():
                by_key[key].append((first, last, file.path))
        for key, spans in by_key.items():
            expected: int | None = firsts.get(key)
            for first, last, path in sorted(spans):
                if path in stuck or first != expected:
                    stuck.add(path)
                    expected = None
                else:
                    expected = last + 1
        if not stuck:
            return list(left.values())
        left = {path: file for path, file in left.items() if path not in stuck}
