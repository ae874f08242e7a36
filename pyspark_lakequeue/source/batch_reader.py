"""`spark.read.format("lakequeue")`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_lakequeue.plain_errors import plainly
from pyspark_lakequeue.source.losses import report_loss
from pyspark_lakequeue.source.options import ReadOptions
from pyspark_lakequeue.source.planning import Piece, plan_tasks
from pyspark_lakequeue.source.positions import ending_option
from pyspark_lakequeue.source.vectors import Offsets, Place

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_lakequeue.source.queue_view import QueueView
    from queue_tables.schema.topic_rules import Topic


class BatchReader(DataSourceReader):
    """Plans once, in a process of its own; only `read` runs in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        """One task for each range of offsets of files, at least one.

        Raises `InvalidRequest`, `OffsetOutOfRange`, …
        """
        from pyspark_lakequeue.source.reading import LogTask

        options = self._options
        pieces = plan_batch(options).pieces(options.fail_on_data_loss)
        tasks = plan_tasks(pieces, options.min_partitions, options.max_records)
        # Of none Spark would make one of its own, which is no `LogTask`.
        return [LogTask(task) for task in tasks or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        from pyspark_lakequeue.source.reading import LogTask, read_task

        task = cast(LogTask, partition)
        yield from read_task(self._options.root, task, self._options.columns)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What a batch query reads, as the queue is now."""

    queue: QueueView
    topics: Mapping[str, Topic]
    ends: Offsets
    """Of every partition that is read, also of those without a wanted record."""
    wanted: Mapping[Place, tuple[int, int]]
    """[from, to) of those with one."""

    def pieces(self, fail_on_data_loss: bool) -> list[Piece]:
        """The row groups that hold them. Raises `OffsetOutOfRange` if some are gone."""
        return self.queue.pieces(self.topics, self.wanted, fail_on_data_loss)


def plan_batch(options: ReadOptions) -> BatchPlan:
    """Resolve what is read to offsets. Raises `InvalidRequest`, `OffsetOutOfRange`, …"""
    from pyspark_lakequeue.source.queue_view import QueueView

    queue = QueueView(options.root)
    topics, starts = queue.starts(options)
    ends = queue.resolve(options.ending, topics, starts, name=ending_option(options.ending))
    wanted = wanted_ranges(queue, topics, starts, ends, options.fail_on_data_loss)
    return BatchPlan(queue, topics, ends, wanted)


def wanted_ranges(
    queue: QueueView,
    topics: Mapping[str, Topic],
    starts: Offsets,
    ends: Offsets,
    fail_on_data_loss: bool,
) -> dict[Place, tuple[int, int]]:
    """[from, to) of each partition, as far as the log has it.

    Raises `OffsetOutOfRange` if it does not have all of it, and data loss is to fail; else warns.
    """
    out: dict[Place, tuple[int, int]] = {}
    for place, start in starts.items():
        topic = topics[place.topic]
        first, end = queue.first(topic, place.partition), queue.end(topic, place.partition)
        low, high = start, ends[place]
        if not first <= low <= end or high > end or high < low:
            report_loss(
                f"{place.topic}/{place.partition} has offsets {first} to {end} (exclusive), and "
                f"{low} to {high} are asked for",
                fail_on_data_loss,
            )
            low, high = max(low, first), min(high, end)
        if low < high:
            out[place] = (low, high)
    return out
