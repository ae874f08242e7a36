"""`spark.read` of a registered session: large scans of a queue are read by Spark itself.

Spark gives a source written in Python neither the columns nor most filters of a query, and every
row goes through a socket. So where a query wants most of the log, and the session has Delta Lake,
`load` returns a frame over the table `log`, with the same rows and columns. Everything else, also
every refusal, is the source's; of its frames, too, every action looks into the queue anew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.session import SparkSession as ClassicSession
from pyspark.sql.utils import to_str

from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from pyspark_lakequeue.session.anew import NEVER, filtered, offer_filters, offers_filters
from pyspark_lakequeue.session.log_scan import Bounds, scan_condition
from pyspark_lakequeue.session.records import scan
from pyspark_lakequeue.source.batch_reader import BatchPlan, plan_batch
from pyspark_lakequeue.source.declared import check_schema
from pyspark_lakequeue.source.options import ANEW, ReadOptions, read_options
from pyspark_lakequeue.source.planning import TASK_BYTES
from pyspark_lakequeue.source.positions import (
    LATEST,
    LATEST_OFFSET,
    AsOf,
    AtOffsets,
    AtTime,
    AtTimes,
)
from pyspark_lakequeue.source.root_option import with_root
from pyspark_lakequeue.source.vectors import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_LEAST_SHARE = 0.5
"""Of the records of the log. The source reads exactly what is wanted, at about half the speed."""
_LEAST_BYTES = TASK_BYTES
"""What one task of the source reads: it is as quick, and has all records in order."""

_NAMES = "lakequeue.formats"
"""Setting of a session: the formats that are read so, separated by commas."""
_CHECKSUMS = "parquet.page.verify-checksum.enabled"


class _Read(property):
    """`SparkSession.read`: that of who had it before, but for sessions that were registered."""


def read_natively(spark: ClassicSession, name: str) -> None:
    """Let `spark.read.format(name)` do so from now on."""
    # The source looks at the checksums of pages, so Spark must: damage is never delivered.
    if spark.conf.get(_CHECKSUMS, None) is None:
        spark.conf.set(_CHECKSUMS, "true")
    offer_filters(spark)
    spark.conf.set(_NAMES, ",".join(sorted(_formats(spark) | {name.lower()})))
    before = ClassicSession.__dict__["read"]
    if isinstance(before, _Read):
        return

    def read(session: ClassicSession) -> DataFrameReader:
        names = _formats(session)
        if names:
            return _QueueReader(session, names)
        found: DataFrameReader = before.__get__(session, type(session))
        return found

    setattr(ClassicSession, "read", _Read(read, doc=before.__doc__))  # noqa: B010 -- no setter


def _formats(spark: ClassicSession) -> set[str]:
    """In a setting, for another object of the same session has it too, and one of a stream."""
    return set(filter(None, str(spark.conf.get(_NAMES, "")).split(",")))


class _QueueReader(DataFrameReader):
    """Spark's own, which also keeps what it is told."""

    def __init__(self, spark: ClassicSession, names: set[str]) -> None:
        super().__init__(spark)
        self._names = names
        self._source = ""
        self._declared: Any = None
        self._given: dict[str, str | None] = {}

    def format(self, source: str) -> DataFrameReader:
        """See `DataFrameReader.format`."""
        self._source = source.lower()
        return super().format(source)

    def schema(self, schema: Any) -> DataFrameReader:
        """See `DataFrameReader.schema`."""
        self._declared = schema
        return super().schema(schema)

    def option(self, key: str, value: Any) -> DataFrameReader:
        """See `DataFrameReader.option`."""
        self._keep({key: value})
        return super().option(key, value)

    def options(self, **options: Any) -> DataFrameReader:
        """See `DataFrameReader.options`."""
        self._keep(options)
        return super().options(**options)

    def load(
        self,
        path: Any = None,
        format: str | None = None,  # noqa: A002 -- Spark's name
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        """See `DataFrameReader.load`."""
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        given = {key: text for key, text in self._given.items() if text is not None}
        # An option that is null is refused by Spark, before it asks the source.
        if self._source not in self._names or path is not None or len(given) < len(self._given):
            return super().load(path)
        try:
            given = dict(with_root(given))
            wanted = read_options(given, streaming=False)
        except LakequeueError as error:
            super().load()  # the source says it in its own words, unless it is of batches alone
            raise AnalysisException(str(error)) from error
        except Warning:
            return super().load()
        if self._declared is None:
            frame = native_frame(self._spark, wanted)
            if frame is not None:
                return frame
        return self._from_source(given, wanted.columns)

    def _from_source(self, given: Mapping[str, str], columns: Sequence[str]) -> DataFrame:
        """The source's frame; each action on it looks into the queue anew."""
        # This reader may be used again: it keeps nothing of what is added here.
        reader = DataFrameReader(self._spark).format(self._source).options(**given)
        if self._declared is not None:
            declared = DataFrameReader(self._spark).format(self._source).schema(self._declared)
            try:
                check_schema(declared.options(**given).load().schema, given)
            except LakequeueError as error:
                raise AnalysisException(str(error)) from error
        if not offers_filters(self._spark):
            return reader.load()
        if not NEVER.keys() & set(columns):
            reader = reader.option("columns", ",".join(["offset", *columns]))
        frame = filtered(reader.option(ANEW, "true").load())
        return frame if len(frame.columns) == len(columns) else frame.select(*columns)

    def _keep(self, options: Mapping[str, Any]) -> None:
        self._given |= {key.lower(): to_str(value) for key, value in options.items()}


def native_frame(spark: SparkSession, options: ReadOptions) -> DataFrame | None:
    """A frame over `log` with what these options ask for; `None` where the source is to read."""
    try:
        if options.min_partitions or options.max_records is not None:
            return None  # Spark's own sources have no such option
        plan = plan_batch(options)
        if not _is_large(plan) or not plan.queue.is_plain() or _is_ahead(options):
            return None
        bounds = _bounds(options, plan)
        every_partition = options.subscription.assign is None and options.ending == LATEST
        ids = {name: str(topic.topic_id) for name, topic in plan.topics.items()}
        condition = scan_condition(ids, bounds, every_partition=every_partition)
        if condition is None:
            return None
    except (LakequeueError, OSError, Warning):
        return None  # the source says it too, in its own words
    try:
        frame = scan(spark, plan.queue.root, condition, options.columns)
        # As in the source, each partition of a task. Spark leaves it out under an aggregate.
        return frame.sortWithinPartitions("offset")
    except (PySparkException, Py4JError) as error:
        why = " ".join(str(error).splitlines()[:2])  # then comes a stack trace of Java
        log.warning("Spark cannot read %s itself, the source does: %s", options.root, why)
        return None


def _bounds(options: ReadOptions, plan: BatchPlan) -> dict[Place, Bounds]:
    """What is wanted of each partition; without an end where that is the newest record."""
    found = {}
    for place, end in plan.ends.items():
        low, high = plan.wanted.get(place, (end, end))
        first = plan.queue.first(plan.topics[place.topic], place.partition)
        found[place] = Bounds(
            low if low > first else None, None if _ends_open(options, place) else high
        )
    return found


def _ends_open(options: ReadOptions, place: Place) -> bool:
    """Whether the newest record is the end: the one that is there when the frame is used."""
    ending = options.ending
    return ending == LATEST or (
        isinstance(ending, AtOffsets)
        and ending.offsets.get(place.topic, {}).get(place.partition) == LATEST_OFFSET
    )


def _is_ahead(options: ReadOptions) -> bool:
    """Whether the end is a time that is not over: each action has to look anew."""
    match options.ending:
        case AtTime(millis) | AsOf(millis):
            newest = millis
        case AtTimes(by_topic):
            newest = max((at for times in by_topic.values() for at in times.values()), default=0)
        case _:
            return False
    return newest * 1_000 > wall_micros()


def _is_large(plan: BatchPlan) -> bool:
    """Whether enough is wanted. By numbers: to look into the files takes long if they are many."""
    records, size = plan.queue.records(), plan.queue.size()
    wanted = sum(high - low for low, high in plan.wanted.values())
    share = wanted / records if records else 0
    return share >= _LEAST_SHARE and share * size >= _LEAST_BYTES
