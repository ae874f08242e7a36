"""Large batches: the log files are written by the executors, by the driver's own function."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from queue_tables.delta.actions import Add
from queue_tables.log.writer import PLAN, adds_from_arrow, adds_to_arrow, write_log_files

_ADD_DDL = "add STRING"


def write_on_executors(spark: SparkSession, root_uri: str, plan: pa.Table) -> list[Add]:
    """Write `plan`, one task for each of its output files; the files are durable on return.

    A task that is run twice leaves files that no commit names.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = pa.Table.from_batches(batches, schema=PLAN)
        keys = ["out_file", "topic", "partition", "offset"]
        part = part.sort_by([(key, "ascending") for key in keys])
        yield from adds_to_arrow(write_log_files(root_uri, part)).to_batches()

    files = plan["out_file"].combine_chunks().dictionary_encode().dictionary
    frame = spark.createDataFrame(plan).repartition(len(files), "out_file")
    return adds_from_arrow(frame.mapInArrow(write, _ADD_DDL).toArrow())
