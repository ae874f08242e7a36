"""`format("lakequeue")`: a source and a sink of Spark, a drop-in for `format("kafka")`.

Spark finds a top-level package of this name by itself (`pyspark_*` with a `DefaultSource`), so
nothing needs to be registered where the package is installed. It is imported whenever a session
looks for a Python data source: it must stay light, and loads the rest only when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_lakequeue.plain_errors import plainly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from pyspark_lakequeue.sink.writer import BatchWriter, StreamWriter
    from pyspark_lakequeue.source.batch_reader import BatchReader
    from pyspark_lakequeue.source.declared import RefusedStream
    from pyspark_lakequeue.source.stream_reader import StreamReader

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Reads and writes one queue. The options are those of the Kafka source, and `root`."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "lakequeue"

    @plainly
    def schema(self) -> str:
        """The columns, as the Kafka source has them. Raises `InvalidRequest` for wrong options."""
        from pyspark_lakequeue.source.declared import declared

        return declared(self._given())

    @plainly
    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        from pyspark_lakequeue.source.batch_reader import BatchReader
        from pyspark_lakequeue.source.declared import check_schema, warn_if_kept
        from pyspark_lakequeue.source.offered_filters import pass_odd_values
        from pyspark_lakequeue.source.options import read_options

        pass_odd_values()
        given = self._given()
        options = read_options(given, streaming=False)
        check_schema(schema, given)
        warn_if_kept(given, options)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> StreamReader | RefusedStream:  # noqa: N802 -- Spark's name
        """For `spark.readStream`. It raises nothing: see `RefusedStream`."""
        from lakequeue.errors import LakequeueError
        from pyspark_lakequeue.source.declared import RefusedStream, check_schema
        from pyspark_lakequeue.source.options import read_options
        from pyspark_lakequeue.source.stream_reader import StreamReader

        try:
            given = self._given()
            options = read_options(given, streaming=True)
            check_schema(schema, given)
        except LakequeueError as error:
            return RefusedStream(error)
        return StreamReader(options, schema)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        from pyspark_lakequeue.sink.options import sink_options
        from pyspark_lakequeue.sink.writer import BatchWriter

        return BatchWriter(sink_options(self._given()), schema, overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 -- Spark's name
        """For `df.writeStream`."""
        from pyspark_lakequeue.sink.options import sink_options
        from pyspark_lakequeue.sink.writer import StreamWriter

        # Output mode complete overwrites. As in the Kafka sink, every batch adds all of its rows.
        return StreamWriter(sink_options(self._given()), schema, overwrite=False)

    def _given(self) -> Mapping[str, str]:
        """The options; without a root, that of the queue which the environment or a file names."""
        from pyspark_lakequeue.source.root_option import with_root

        return with_root(self.options)
