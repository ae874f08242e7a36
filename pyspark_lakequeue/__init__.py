"""`format("lakequeue")`: a source and a sink of Spark, a drop-in for `format("kafka")`.

Spark finds a top-level package of this name by itself (`pyspark_*` with a `DefaultSource`), so
nothing needs to be registered where the package is installed. It is imported whenever a session
looks for a Python data source: it must stay light, and loads the rest only when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_lakequeue.columns import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_lakequeue.sink.writer import BatchWriter, StreamWriter
    from pyspark_lakequeue.source.batch_reader import BatchReader
    from pyspark_lakequeue.source.stream_reader import StreamReader

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Reads and writes one queue. The options are those of the Kafka source, and `root`."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "lakequeue"

    def schema(self) -> str:
        """The columns, as the Kafka source has them. Raises `InvalidRequest` for wrong options."""
        from pyspark_lakequeue.source.options import wanted_columns

        return ", ".join(f"`{name}` {SCHEMA[name]}" for name in wanted_columns(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        from pyspark_lakequeue.source.batch_reader import BatchReader
        from pyspark_lakequeue.source.options import read_options

        return BatchReader(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 -- Spark's name
        """For `spark.readStream`."""
        from pyspark_lakequeue.source.options import read_options
        from pyspark_lakequeue.source.stream_reader import StreamReader

        return StreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        from pyspark_lakequeue.sink.options import sink_options
        from pyspark_lakequeue.sink.writer import BatchWriter

        return BatchWriter(sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 -- Spark's name
        """For `df.writeStream`."""
        from pyspark_lakequeue.sink.options import sink_options
        from pyspark_lakequeue.sink.writer import StreamWriter

        return StreamWriter(sink_options(self.options), schema, overwrite)
