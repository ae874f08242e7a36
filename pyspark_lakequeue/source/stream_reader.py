"""`spark.readStream.format("lakequeue")`.

`initialOffset`, `latestOffset` and `partitions` run in one Python process that lives as
long as the query; `read` runs in the tasks. Other processes only pickle a reader: what reads the
tables is loaded when it is used, which keeps a start short.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakequeue.clock import boot_seconds
from pyspark_lakequeue.plain_errors import plainly
from pyspark_lakequeue.source.batch_reader import wanted_ranges
from pyspark_lakequeue.source.losses import report_begin, report_loss
from pyspark_lakequeue.source.options import ReadOptions
from pyspark_lakequeue.source.planning import plan_tasks
from pyspark_lakequeue.source.positions import EARLIEST
from pyspark_lakequeue.source.vectors import (
    Json,
    Offsets,
    Place,
    Vector,
    admit,
    count,
    names,
    ranges,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_lakequeue.source.group_mirror import GroupMirror
    from pyspark_lakequeue.source.queue_view import QueueView
    from queue_tables.schema.topic_rules import Topic


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are vectors (`vectors.py`); a query goes on from those in its checkpoint."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._queue: QueueView | None = None
        self._targets: Offsets | None = None
        self._last_batch: float | None = None
        self._turn = 0
        self._mirror: GroupMirror | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_queue": None,
            "_targets": None,
            "_last_batch": None,
            "_mirror": None,
        }

    # -- in the planning process ------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> Json:  # noqa: N802 -- Spark's name
        """Where `startingOffsets` and its like say; only a new query asks."""
        topics, starts = self._view().starts(self._options)
        return Vector(starts, _ids(topics), initial=True).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's name
        """Spark has one limit at a time, so `latestOffset` looks at both options itself."""
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """End at what is there now."""
        queue = self._view()
        topics = queue.existing(self._options.subscription)
        self._targets = queue.ends(topics, queue.places(self._options.subscription, topics))

    def latestOffset(self, start: Json, limit: ReadLimit | None = None) -> Json:  # noqa: N802 -- Spark's name
        """The end of the next batch; `start` itself if there is nothing to read.

        Up to `start` all is done: with `group.id` the group's position follows.
        """
        self._show(Vector.of(start))
        queue = self._view()
        queue.refresh()
        found = self._next(Vector.of(start), limit)
        if found is None and self._targets is None:
            # Spark asks again at once, a hundred times a second: not every time of the storage.
            time.sleep(self._options.poll_ms / 1_000)
            queue.refresh()
            found = self._next(Vector.of(start), limit)
        return start if found is None else found.to_json()

    def _show(self, done: Vector) -> None:
        """Not in `commit`: Spark calls that for a batch when it has planned another one."""
        if self._options.group is None or done.initial:
            return
        if self._mirror is None:
            from pyspark_lakequeue.source.group_mirror import GroupMirror

            self._mirror = GroupMirror(self._options.root, self._options.group)
        self._mirror.move_to(done)

    def _next(self, start: Vector, limit: ReadLimit | None) -> Vector | None:
        begins, ends, topics = self._reach(start)
        limited = not isinstance(limit, ReadAllAvailable)
        if limited and self._too_few(count(begins, ends)):
            ends = begins
        elif limited and self._options.max_offsets is not None:
            ends = admit(begins, ends, self._options.max_offsets, self._turn)
            self._turn += ends != begins
        ids = _ids(topics)
        if start.initial:
            # Spark keeps the end of a batch, not the start of the first one. So there is a first
            # batch at once, without records if need be, that says where the query has begun.
            if begins == ends and self._options.starting == EARLIEST:
                return None
            return Vector(ends, ids, begins=begins)
        if ends == start.offsets and ids == start.ids:
            return None
        return Vector(ends, ids)

    def _reach(self, start: Vector) -> tuple[Offsets, Offsets, Mapping[str, Topic]]:
        """Where to begin, and what is there: partitions that are gone or new are settled here."""
        options, queue = self._options, self._view()
        topics = queue.existing(options.subscription)
        places = queue.places(options.subscription, topics)
        gone = start.offsets.keys() - set(places)
        if gone:
            report_loss(f"{names(gone)} are gone", options.fail_on_data_loss)
        begins: Offsets = {}
        ends = queue.ends(topics, places)
        for place in places:
            topic = topics[place.topic]
            first = queue.first(topic, place.partition)
            at = start.offsets.get(place, first)
            known = start.ids.get(place.topic, topic.topic_id)
            if known != topic.topic_id or not first <= at <= ends[place]:
                why = (
                    f"topic {place.topic} was deleted and created again"
                    if known != topic.topic_id
                    else f"{place.topic}/{place.partition} has offsets {first} to {ends[place]} "
                    f"(exclusive), the query is at {at}"
                )
                report_loss(why, options.fail_on_data_loss)
                at = first if known != topic.topic_id else min(max(at, first), ends[place])
            elif place not in start.offsets and not start.initial:
                report_begin(place, first, options.fail_on_data_loss)
            begins[place] = at
        if self._targets is not None:
            ends = {
                p: max(begins[p], min(end, self._targets.get(p, begins[p])))
                for p, end in ends.items()
            }
        return begins, ends, topics

    def _too_few(self, available: int) -> bool:
        """Less than `minOffsetsPerTrigger`, and the last batch was not too long ago.

        The first batch comes at once, also after a restart, as in the Kafka source.
        """
        least, now = self._options.min_offsets, boot_seconds()
        if not available or least is None or self._targets is not None:
            return False
        since = None if self._last_batch is None else now - self._last_batch
        if available < least and since is not None and since < self._options.max_delay_ms / 1_000:
            return True
        self._last_batch = now
        return False

    def reportLatestOffset(self) -> Json:  # noqa: N802 -- Spark's name
        """What there is now, for the progress report."""
        queue = self._view()
        topics = queue.existing(self._options.subscription)
        ends = queue.ends(topics, queue.places(self._options.subscription, topics))
        return Vector(ends, _ids(topics)).to_json()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The tasks that read what is between."""
        from pyspark_lakequeue.source.reading import LogTask

        options, queue = self._options, self._view()
        begin, upto = Vector.of(start), Vector.of(end)
        topics = queue.existing(options.subscription)
        kept = {p: offset for p, offset in upto.offsets.items() if self._is_same(p, upto, topics)}
        first = {p: queue.first(topics[p.topic], p.partition) for p in kept}
        same = {
            p: offset
            for p, offset in begin.offsets.items()
            if begin.ids.get(p.topic) == upto.ids.get(p.topic)
        }
        begins = same if upto.begins is None else upto.begins
        for place in kept.keys() - begins.keys():
            report_begin(place, first[place], options.fail_on_data_loss)
        spans = ranges(Vector(same), Vector(kept, begins=upto.begins), first)
        wanted = wanted_ranges(
            queue,
            topics,
            {place: low for place, (low, _) in spans.items()},
            {place: high for place, (_, high) in spans.items()},
            options.fail_on_data_loss,
        )
        pieces = queue.pieces(topics, wanted, options.fail_on_data_loss)
        return [LogTask(t) for t in plan_tasks(pieces, options.min_partitions, options.max_records)]

    def _is_same(self, place: Place, upto: Vector, topics: Mapping[str, Topic]) -> bool:
        """Whether the topic is the one that the batch was planned for."""
        topic = topics.get(place.topic)
        if topic is not None and upto.ids.get(place.topic) == topic.topic_id:
            return True
        report_loss(
            f"{place.topic}/{place.partition} was planned and is gone",
            self._options.fail_on_data_loss,
        )
        return False

    def commit(self, end: Json) -> None:
        """Nothing is kept for a query."""

    def stop(self) -> None:
        """The query ends."""

    def _view(self) -> QueueView:
        if self._queue is None:
            from pyspark_lakequeue.source.queue_view import QueueView

            self._queue = QueueView(self._options.root)
        return self._queue

    # -- in a worker ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        from pyspark_lakequeue.source.reading import LogTask, read_task

        task = cast(LogTask, partition)
        yield from read_task(self._options.root, task, self._options.columns)


def _ids(topics: Mapping[str, Topic]) -> dict[str, str]:
    return {name: str(topic.topic_id) for name, topic in topics.items()}
