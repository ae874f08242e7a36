"""The queue as a planning process sees it: which partitions there are, from where to where.

Reads `topics` and `log` of the root, and nothing else: no service, no ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lakequeue.clock import Micros
from lakequeue.errors import InvalidRequest
from lakequeue.records import Offset, Partition
from pyspark_lakequeue.source.losses import report_loss
from pyspark_lakequeue.source.options import ReadOptions, Subscription
from pyspark_lakequeue.source.planning import Piece, RowSpan
from pyspark_lakequeue.source.positions import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AsOf,
    AtOffsets,
    AtTime,
    AtTimes,
    Earliest,
    PerPartition,
    Position,
    starting_option,
)
from pyspark_lakequeue.source.vectors import Offsets, Place, names
from queue_tables.files.stats import FileStats
from queue_tables.log.gaps import gaps
from queue_tables.log.index import Span
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore


class QueueView:
    """One root, as of the last `refresh`. Not thread-safe."""

    def __init__(self, uri: str) -> None:
        self.root = QueueRoot.existing(uri, replica_too=True)
        self._topics = TopicStore(self.root)
        self._log = LogReader(self.root)

    def refresh(self) -> None:
        """Take in what was created and ordered since."""
        self._topics.refresh()
        self._log.refresh()

    # -- partitions -------------------------------------------------------------------------------

    def topics(self, subscription: Subscription) -> dict[str, Topic]:
        """The topics that are read. Raises `UnknownTopic` for one that is named and not there."""
        if subscription.pattern is not None:
            pattern = re.compile(subscription.pattern)
            found = [t for t in self._topics.list() if pattern.fullmatch(t.topic)]
        else:
            named = subscription.topics or tuple(subscription.assign or {})
            found = [self._topics.get(name) for name in sorted(named)]
        return {topic.topic: topic for topic in found}

    def existing(self, subscription: Subscription) -> dict[str, Topic]:
        """The same, but without what is gone."""
        if subscription.pattern is not None:
            return self.topics(subscription)
        named = subscription.topics or tuple(subscription.assign or {})
        return {topic.topic: topic for topic in self._topics.list() if topic.topic in named}

    def places(self, subscription: Subscription, topics: Mapping[str, Topic]) -> list[Place]:
        """Every partition that is read. Raises `InvalidRequest` for one that does not exist."""
        if subscription.assign is None:
            return [Place(t.topic, p) for t in topics.values() for p in range(t.partitions)]
        out = []
        for name, partitions in subscription.assign.items():
            topic = topics.get(name)
            for partition in partitions if topic is not None else ():
                if topic is not None:
                    topic.place(partition, field="assign")
                out.append(Place(name, partition))
        return out

    # -- offsets ----------------------------------------------------------------------------------

    def first(self, topic: Topic, partition: int) -> int:
        """The lowest offset that is still there."""
        return int(self._log.first_offset(topic.topic_id, Partition(partition)))

    def end(self, topic: Topic, partition: int) -> int:
        """The offset of the next record."""
        return int(self._log.end_offset(topic.topic_id, Partition(partition)))

    def ends(self, topics: Mapping[str, Topic], places: Iterable[Place]) -> Offsets:
        """The ends of these partitions."""
        return {place: self.end(topics[place.topic], place.partition) for place in places}

    def starts(self, options: ReadOptions) -> tuple[dict[str, Topic], Offsets]:
        """The topics that are read, and where each of their partitions begins.

        Raises `UnknownTopic`, `InvalidRequest`.
        """
        topics = self.topics(options.subscription)
        return topics, self.resolve(
            options.starting,
            topics,
            self.places(options.subscription, topics),
            name=starting_option(options.starting),
            unmatched=options.latest_if_unmatched,
        )

    def resolve(
        self,
        position: Position,
        topics: Mapping[str, Topic],
        places: Iterable[Place],
        *,
        name: str,
        unmatched: bool = True,
    ) -> Offsets:
        """The offset that `position` means in each partition.

        `unmatched`: a time after the newest record means the end; else it is an error. `name` is
        the option, for messages. Raises `InvalidRequest`.
        """
        wanted = list(places)
        if isinstance(position, AtOffsets):
            _check_covers(position.offsets, wanted, name)
        if isinstance(position, AtTimes):
            _check_covers(position.millis, wanted, name)
        return {
            place: self._one(position, topics[place.topic], place, name, unmatched)
            for place in wanted
        }

    def _one(
        self, position: Position, topic: Topic, place: Place, name: str, unmatched: bool
    ) -> int:
        match position:
            case Earliest():
                return self.first(topic, place.partition)
            case AtOffsets(offsets):
                given = offsets[place.topic][place.partition]
                if given == EARLIEST_OFFSET:
                    return self.first(topic, place.partition)
                return self.end(topic, place.partition) if given == LATEST_OFFSET else given
            case AtTime(millis):
                return self._at(topic, place, millis, name, unmatched)
            case AsOf(millis):
                return self._as_of(topic, place, millis)
            case AtTimes(times):
                millis = times[place.topic][place.partition]
                return self._at(topic, place, millis, name, unmatched)
            case _:
                return self.end(topic, place.partition)

    def _at(self, topic: Topic, place: Place, millis: int, name: str, unmatched: bool) -> int:
        end = self.end(topic, place.partition)
        partition = Partition(place.partition)
        found = int(self._log.offset_at_time(topic.topic_id, partition, millis * 1_000))
        if found >= end and not unmatched:
            raise InvalidRequest(
                f"option {name}: no record of {names([place])} is at or after {millis}",
                hint='startingOffsetsByTimestampStrategy "latest" begins at the end instead',
                field=name,
            )
        return found

    def _as_of(self, topic: Topic, place: Place, millis: int) -> int:
        after = Micros(millis * 1_000 + 1)
        partition = Partition(place.partition)
        return int(self._log.offset_at_time(topic.topic_id, partition, after, "ordered_at"))

    # -- files ------------------------------------------------------------------------------------

    def records(self) -> int:
        """Records in all files of the log."""
        return sum(FileStats(file.stats).records or 0 for file in self._log.files())

    def is_plain(self) -> bool:
        """Whether Spark's own readers see the log as this one does."""
        return self._log.is_plain()

    def size(self) -> int:
        """Bytes of all files of the log."""
        return sum(file.size for file in self._log.files())

    def pieces(
        self,
        topics: Mapping[str, Topic],
        wanted: Mapping[Place, tuple[int, int]],
        fail_on_data_loss: bool,
    ) -> list[Piece]:
        """The row groups that hold the wanted offsets [from, to), and which of their rows.

        Raises `OffsetOutOfRange` if some of them are not in the log any more. Where another engine
        has deleted rows, it raises that if data loss is to fail; else it warns, and goes on.
        """
        found: dict[tuple[str, int], list[tuple[RowSpan, Span]]] = {}
        for place, (low, high) in sorted(wanted.items()):
            topic_id, partition = topics[place.topic].topic_id, Partition(place.partition)
            spans = self._log.spans(topic_id, partition, Offset(low), Offset(high))
            holes = list(gaps(((int(s.first), int(s.last)) for s in spans), low, high))
            if holes:
                report_loss(_holes(place, holes), fail_on_data_loss)
            for span in spans:
                start = span.start + max(0, low - span.first)
                end = span.end - max(0, span.last + 1 - high)
                row_span = RowSpan(place.topic, place.partition, max(low, span.first), start, end)
                found.setdefault((span.path, span.row_group), []).append((row_span, span))
        return [self._piece(path, group, cuts) for (path, group), cuts in found.items()]

    def _piece(self, path: str, row_group: int, found: list[tuple[RowSpan, Span]]) -> Piece:
        file = self._log.file(path)
        stats = FileStats(file.stats)
        cuts = tuple(sorted(row_span for row_span, _ in found))
        rows = sum(row_span.end - row_span.start for row_span in cuts)
        size = file.size * rows // max(1, rows if stats.records is None else stats.records)
        ordered_at = stats.low("ordered_at", str) or ""
        mixed_up = self._log.mixed_up(path, row_group)
        return Piece(ordered_at, path, row_group, size, cuts, mixed_up, file.deletion_vector)


def _check_covers(given: PerPartition, wanted: Iterable[Place], name: str) -> None:
    have = {Place(topic, partition) for topic, some in given.items() for partition in some}
    need = set(wanted)
    if have != need:
        missing, extra = need - have, have - need
        said = [f"missing {names(missing)}"] if missing else []
        said += [f"not read here: {names(extra)}"] if extra else []
        raise InvalidRequest(
            f"option {name}: all partitions that are read must be given, and no others:"
            f" {'; '.join(said)}",
            hint="-1 is latest, -2 is earliest",
            field=name,
        )


def _holes(place: Place, holes: list[tuple[int, int]]) -> str:
    some = ", ".join(str(low) if to == low + 1 else f"{low} to {to - 1}" for low, to in holes[:10])
    more = f" and {len(holes) - 10} more ranges" if len(holes) > 10 else ""
    count = sum(to - low for low, to in holes)
    return (
        f"{place.topic}/{place.partition} has no record at {some}{more} ({count} offsets): another"
        " engine has deleted rows of the table log"
    )
