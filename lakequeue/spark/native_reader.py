"""`spark.read` of a registered session: large scans of a queue are read by Spark itself.

Spark gives a source written in Python neither the columns nor most filters of a query, and every
row goes through a socket. So where a query wants most of the log, and the session has Delta Lake,
`load` returns a frame over the table `log`, with the same rows and columns. Everything else, also
every refusal, is the source's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.session import SparkSession as ClassicSession
from pyspark.sql.utils import to_str

from lakequeue.errors import LakequeueError
from lakequeue.spark.log_scan import Bounds, scan_condition
from lakequeue.spark.records import scan
from pyspark_lakequeue.batch_reader import BatchPlan, plan_batch
from pyspark_lakequeue.options import ReadOptions, read_options
from pyspark_lakequeue.positions import LATEST
from pyspark_lakequeue.vectors import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_LEAST_SHARE = 0.5
"""Of the bytes of the log. The source reads exactly what is wanted, at about half the speed."""

_names: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""Session → the formats that are read so."""
_CHECKSUMS = "parquet.page.verify-checksum.enabled"
_sparks_own = ClassicSession.read


def read_natively(spark: SparkSession, name: str) -> None:
    """Let `spark.read.format(name)` do so from now on. A session of Spark Connect stays as it is:
    its client need not reach the root.
    """
    if isinstance(spark, ClassicSession):
        # The source looks at the checksums of pages, so Spark must: damage is never delivered.
        if spark.conf.get(_CHECKSUMS, None) is None:
            spark.conf.set(_CHECKSUMS, "true")
        _names.setdefault(spark, set()).add(name.lower())
        setattr(ClassicSession, "read", property(_reader))  # noqa: B010 -- it has no setter


def _reader(spark: ClassicSession) -> DataFrameReader:
    names = _names.get(spark)
    return _QueueReader(spark, names) if names else _sparks_own.fget(spark)  # type: ignore[attr-defined]


class _QueueReader(DataFrameReader):
    """Spark's own, which also keeps what it is told."""

    def __init__(self, spark: ClassicSession, names: set[str]) -> None:
        super().__init__(spark)
        self._names = names
        self._source = ""
        self._declared = False
        self._given: dict[str, str] = {}

    def format(self, source: str) -> DataFrameReader:
        """See `DataFrameReader.format`."""
        self._source = source.lower()
        return super().format(source)

    def schema(self, schema: Any) -> DataFrameReader:
        """See `DataFrameReader.schema`."""
        self._declared = True
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
        if self._source in self._names and path is None and not self._declared:
            frame = native_frame(self._spark, self._given)
            if frame is not None:
                return frame
        return super().load(path)

    def _keep(self, options: Mapping[str, Any]) -> None:
        for key, value in options.items():
            text = to_str(value)
            if text is not None:
                self._given[key.lower()] = text


def native_frame(spark: SparkSession, given: Mapping[str, str]) -> DataFrame | None:
    """A frame over `log` with what these options ask for; `None` where the source is to read."""
    try:
        options = read_options(given, streaming=False)
        if options.min_partitions or options.max_records is not None:
            return None  # Spark's own sources know no such wish
        plan = plan_batch(options)
        bounds = _bounds(options, plan)
        every_partition = options.subscription.assign is None and options.ending == LATEST
        ids = {name: str(topic.topic_id) for name, topic in plan.topics.items()}
        condition = scan_condition(ids, bounds, every_partition=every_partition)
        everything = every_partition and set(bounds.values()) <= {Bounds()}
        if condition is None or _share(plan, everything) < _LEAST_SHARE:
            return None
    except LakequeueError:
        return None  # the source refuses it too, in its own words
    try:
        return scan(spark, plan.queue.root, condition, options.columns)
    except (PySparkException, Py4JError) as error:
        log.warning("Spark cannot read %s itself, the source does: %s", options.root, error)
        return None


def _bounds(options: ReadOptions, plan: BatchPlan) -> dict[Place, Bounds]:
    """What is wanted of each partition; without an end where that is the newest record."""
    found = {}
    for place, end in plan.ends.items():
        low, high = plan.wanted.get(place, (end, end))
        first = plan.queue.first(plan.topics[place.topic], place.partition)
        found[place] = Bounds(
            low if low > first else None, high if options.ending != LATEST else None
        )
    return found


def _share(plan: BatchPlan, everything: bool) -> float:
    """How much of the log is wanted. Footers are looked at only where it is not plain."""
    size = plan.queue.size()
    if not size or (everything and plan.queue.alone(plan.topics.values())):
        return 1.0
    return sum(piece.size for piece in plan.pieces()) / size
