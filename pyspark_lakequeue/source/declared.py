"""What `load` is told before anything is read: options are judged, a schema of the caller's too."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from lakequeue.errors import InvalidRequest, LakequeueError
from pyspark_lakequeue.columns import SCHEMA
from pyspark_lakequeue.source.options import ANEW, ReadOptions, read_options, wanted_columns
from pyspark_lakequeue.source.positions import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

    from pyspark.sql.types import StructType

    from pyspark_lakequeue.source.vectors import Json


_PREFIX = "option."
_PROPERTIES = frozenset({"provider", "owner", "location", "is_managed_location"})
"""What Spark's catalog says of a table beside its options."""


def declared(given: Mapping[str, str]) -> str:
    """The columns as DDL. Raises `InvalidRequest` for options that no query could have.

    Spark does not say whether a batch or a stream is loaded: what is wrong in one of them alone is
    refused when that is planned.
    """
    refuse_table(given)
    with warnings.catch_warnings():
        # Who plans the query warns.
        warnings.simplefilter("ignore")
        try:
            read_options(given, streaming=False)
        except InvalidRequest:
            read_options(given, streaming=True)
    return ", ".join(f"`{name}` {SCHEMA[name]}" for name in wanted_columns(given))


def refuse_table(given: Mapping[str, str]) -> None:
    """Refuse `CREATE TABLE … USING lakequeue`. Raises `InvalidRequest`.

    Spark keeps the options of such a table, and hands them to no source that is written in Python.
    """
    low = {name.lower() for name in given}
    if low & _PROPERTIES or any(name.startswith(_PREFIX) for name in low):
        raise InvalidRequest(
            "a table of the catalog cannot be read: Spark does not hand its options to a source "
            "that is written in Python",
            hint='frame.createOrReplaceTempView("orders"), with the frame of '
            'spark.read.format("lakequeue").options(…).load(), or lakequeue.spark.create_views',
        )


def check_schema(schema: StructType, given: Mapping[str, str]) -> None:
    """Refuse a schema of the caller's, unless it is the source's own. Raises `InvalidRequest`."""
    found = [(field.name, _plain(field.dataType.simpleString())) for field in schema.fields]
    fixed = [(name, _plain(SCHEMA[name])) for name in wanted_columns(given)]
    if found != fixed:
        raise InvalidRequest(
            f"the source has a fixed schema ({', '.join(name for name, _ in fixed)}) and cannot be "
            f"read with another one ({', '.join(name for name, _ in found)})",
            hint='leave out schema(…); .option("columns", "value,offset") reads fewer columns, and '
            "from_json or a cast makes other types of them",
            field="schema",
        )


def warn_if_kept(given: Mapping[str, str], options: ReadOptions) -> None:
    """Warn of a frame that Spark will answer every later action on from this one plan."""
    if options.ending == LATEST and ANEW not in {name.lower() for name in given}:
        warnings.warn(
            "Spark keeps this plan: later actions on the same frame or view show no newer records. "
            "After lakequeue.spark.register(spark), frames of spark.read.format(…).load() do; or "
            "call load() again",
            stacklevel=2,
        )


def _plain(sql_type: str) -> str:
    """A type as both Spark's `simpleString` and our DDL have it."""
    return sql_type.lower().replace(" ", "").replace("timestamp_ltz", "timestamp")


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands for a reader that could not be made, and says why as soon as it is asked anything.

    Where `streamReader` raises, Spark 4.2 loses the reason: its own clean-up fails behind it.
    """

    def __init__(self, error: LakequeueError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error.with_traceback(None) from None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """Raises the error."""
        self._refuse()

    def initialOffset(self) -> Json:  # noqa: N802 -- Spark's name
        """Raises the error."""
        self._refuse()

    def latestOffset(self, start: Json, limit: ReadLimit | None = None) -> Json:  # noqa: N802 -- Spark's name
        """Raises the error."""
        self._refuse()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Raises the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Raises the error."""
        self._refuse()
