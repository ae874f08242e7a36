"""Exactly-once effects in a Delta table that Spark writes: result and positions, in one commit.

A checkpoint alone does not give that: lost, or taken from a backup, it makes a query read again
what is in the table already. Here each commit carries the positions of the group as its
`userMetadata`, and a `txn` that rises by one. Records below the positions are left out, whatever
the checkpoint says; and of two queries of one group only one commits, since Delta Lake refuses a
`txn` that another has moved. Plain DataFrame and SQL calls: also over Spark Connect.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

from lakequeue.errors import ConsumedElsewhere, InvalidRequest, ResultBehind, UnknownTopic
from lakequeue.records import checked_name
from lakequeue.results.declared import Mark, group_app_id, needle, parse_mark, partition_needle
from lakequeue.results.restores import restored_to
from lakequeue.steps import Step, reach
from pyspark_lakequeue.session.result_marks import (
    Commit,
    FoundMark,
    Span,
    find,
    gaps,
    moved,
    quoted,
)
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Transform = Callable[["DataFrame"], "DataFrame"]

_NO_TABLE = frozenset(
    {
        "TABLE_OR_VIEW_NOT_FOUND",
        "DELTA_TABLE_NOT_FOUND",
        "DELTA_MISSING_DELTA_TABLE",
        "DELTA_PATH_DOES_NOT_EXIST",
        "DELTA_TABLE_ONLY_OPERATION",
    }
)
"""What is no table: the first write makes one, or says why it cannot."""
_NEWEST = 20
"""Commits among which the group's own newest one stands, mostly."""


class DeltaSink:
    """Writes a stream of `format("lakequeue")` to a Delta table: exactly once, by `foreachBatch`.

    Args:
        root: Root of the queue.
        table: A path, or the name of a table. It is created if it is missing.
        group: The group whose positions the table carries.
        transform: Makes the rows to append out of a frame with the columns of the source. It may
            aggregate within the batch.
        options: Options of the writer (`mergeSchema`, …).
        partition_by: Partition columns of a table that is created.
        skip_gap: Go on if records between the table's position and the batch are gone.

    Raises:
        ResultBehind: In a batch: it begins beyond what the table has. The table was restored, or
            records are gone.
        ConsumedElsewhere: In a batch: another query of the group has written. Start this one again.

    Example:
        sink = DeltaSink(root, "/lake/report", group="report", transform=totals)
        stream.writeStream.foreachBatch(sink).option("checkpointLocation", folder).start()
    """

    def __init__(
        self,
        root: str,
        table: str,
        group: str,
        transform: Transform | None = None,
        *,
        options: Mapping[str, str] | None = None,
        partition_by: tuple[str, ...] = (),
        skip_gap: bool = False,
    ) -> None:
        self._root = root
        self._table = table
        self._group = checked_name(group, "group")
        self._transform = transform
        self._options = dict(options or {})
        self._partition_by = partition_by
        self._skip_gap = skip_gap
        self._known: FoundMark | None = None
        """As of our own last commit; None: to be looked up."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch. `batch_id` does not matter: another checkpoint counts anew."""
        missing = {"topic", "partition", "offset"} - set(batch.columns)
        if missing:
            raise InvalidRequest(
                f"the batch has no column {', '.join(sorted(missing))}",
                hint="give the frame of the source to foreachBatch, and a transform to DeltaSink",
            )
        # Read once, for the positions and for the rows.
        batch = batch.persist()
        spark, known, self._known = batch.sparkSession, self._known, None
        try:
            if known is None or self._restored(spark):
                known = self._look(spark)
            self._known = self._write(batch, known)
        finally:
            batch.unpersist()

    def _write(self, batch: DataFrame, known: FoundMark) -> FoundMark:
        topic_ids = self._topic_ids()
        spans = _spans(batch, topic_ids)
        missed = gaps(known.positions, spans)
        if missed and not self._skip_gap:
            place, (done, first) = next(iter(missed.items()))
            raise ResultBehind(
                f"{self._table} has {place} up to offset {done}, and the batch begins at {first}",
                hint=f"start a new checkpoint with startingOffsets {done}, or leave the "
                f"{first - done} out: skip_gap=True",
                done=done,
                from_offset=first,
            )
        positions = moved(known.positions, spans)
        if positions == dict(known.positions):
            return known
        reach(Step.EFFECT_TAKEN)
        mark = Mark(self._group, known.round + 1, uuid.uuid4().hex, positions, known.restored)
        self._append(_beyond(batch, topic_ids, known), mark)
        reach(Step.EFFECT_COMMITTED)
        # Delta Lake leaves a write out, and says nothing, if its txn is there already.
        if not self._stands(batch.sparkSession, mark):
            raise ConsumedElsewhere(
                f"another query of group {self._group} has written round {mark.round} to "
                f"{self._table}",
                hint="let one query of a group run; this one goes on when it is started again",
            )
        # A RESTORE since the look is below our commit, and its rows below ours.
        self._find(self._history(batch.sparkSession, _NEWEST))
        return FoundMark(mark.round, positions, known.restored)

    def _append(self, rows: DataFrame, mark: Mark) -> None:
        out = rows if self._transform is None else self._transform(rows)
        writer = (
            out.write.format("delta")
            .mode("append")
            .options(**self._options)
            .option("txnAppId", group_app_id(self._group))
            .option("txnVersion", str(mark.round))
            .option("userMetadata", mark.to_json())
        )
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        if self._is_path:
            writer.save(self._table)
        else:
            writer.saveAsTable(self._table)

    @property
    def _is_path(self) -> bool:
        return "/" in self._table

    def _topic_ids(self) -> dict[str, str]:
        """By name; looked up for each batch, since a stream may meet new topics."""
        root = QueueRoot.existing(self._root, replica_too=True)
        return {topic.topic: topic.topic_id for topic in TopicStore(root).list()}

    # -- what the table has -----------------------------------------------------------------------

    def _history(self, spark: SparkSession, limit: int | None) -> DataFrame:
        table = quoted(self._table) if self._is_path else self._table
        return spark.sql(f"DESCRIBE HISTORY {table}" + (f" LIMIT {limit}" if limit else ""))

    def _look(self, spark: SparkSession) -> FoundMark:
        try:
            history = self._history(spark, None)
        except AnalysisException as e:
            if e.getCondition() in _NO_TABLE:
                return FoundMark(0, {})
            raise
        return self._find(history)

    def _find(self, history: DataFrame) -> FoundMark:
        rows = (
            history.where(self._about_us())
            .orderBy(sf.desc("version"))
            .select("version", "operation", "operationParameters", "userMetadata")
            .toLocalIterator()
        )
        return find(
            self._group,
            (
                Commit(
                    row["version"],
                    restored_to(row["operationParameters"])
                    if row["operation"] == "RESTORE"
                    else None,
                    row["userMetadata"],
                )
                for row in rows
            ),
        )

    def _restored(self, spark: SparkSession) -> bool:
        """Whether the table may have been restored since the group's newest commit of Spark."""
        newest = self._history(spark, _NEWEST).where(self._about_us()).orderBy(sf.desc("version"))
        row = newest.select("userMetadata").head()
        return row is None or parse_mark(self._group, row["userMetadata"]) is None

    def _about_us(self) -> Column:
        """Commits that have a mark of the group, and every RESTORE."""
        metadata = sf.col("userMetadata")
        ours = metadata.startswith(needle(self._group))
        of_delta_rs = metadata.startswith(partition_needle(self._group))
        return ours | of_delta_rs | (sf.col("operation") == "RESTORE")

    def _stands(self, spark: SparkSession, mark: Mark) -> bool:
        ours = sf.col("userMetadata") == mark.to_json()
        newest = self._history(spark, _NEWEST).where(ours)
        # Further down if others have written since.
        return bool(newest.head(1) or self._history(spark, None).where(ours).head(1))


def _spans(batch: DataFrame, topic_ids: Mapping[str, str]) -> dict[str, Span]:
    """Offsets in the batch, by `<topic_id>/<partition>`."""
    bounds = batch.groupBy("topic", "partition").agg(
        sf.min("offset").alias("first"), sf.max("offset").alias("last")
    )
    spans = {}
    for row in bounds.collect():
        topic = row["topic"]
        if topic not in topic_ids:
            raise UnknownTopic(f"topic {topic!r} was deleted", hint="take it out of the stream")
        spans[f"{topic_ids[topic]}/{row['partition']}"] = Span(row["first"], row["last"] + 1)
    return spans


def _beyond(batch: DataFrame, topic_ids: Mapping[str, str], known: FoundMark) -> DataFrame:
    """The rows that the table does not have."""
    if not known.positions:
        return batch
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    pairs: list[Column] = []
    for place, position in known.positions.items():
        topic_id, _, partition = place.rpartition("/")
        if topic_id in names:
            pairs += [sf.lit(f"{names[topic_id]}/{partition}"), sf.lit(position)]
    if not pairs:
        return batch
    name = sf.concat_ws("/", "topic", sf.col("partition").cast("string"))
    done = sf.coalesce(sf.create_map(*pairs)[name], sf.lit(0))
    return batch.where(sf.col("offset") >= done)
