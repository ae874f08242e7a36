"""A stream of `orders` into a Delta table by `DeltaSink`, as users write it, in batches of two.

    python -m tests.support.runs.spark_sink_process --root DIR --table DIR --checkpoint DIR --work
    DIR \
        [--crash-at effect.committed:2]

Ends when all that is there has been read.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lakequeue.processes.java import find_java
from lakequeue.spark import DeltaSink
from lakequeue.steps import arm
from tests.support.spark.spark_session import start_spark


def sink_of(root: str, table: str) -> DeltaSink:
    """Writes partition, offset and the value as text, for the group `report`."""
    return DeltaSink(
        root,
        table,
        "report",
        lambda frame: frame.selectExpr("partition", "offset", "cast(value as string) value"),
    )


def run_sink(
    spark: SparkSession, root: str, table: str, checkpoint: str, sink: DeltaSink | None = None
) -> None:
    """Run the query to its end."""
    records = (
        spark.readStream.format("lakequeue")
        .options(root=root, subscribe="orders", startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", "2")
        .load()
    )
    query = (
        records.writeStream.foreachBatch(sink or sink_of(root, table))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> int:
    """Run the query to its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("root", "table", "checkpoint", "work"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = start_spark(Path(args.work))
    run_sink(spark, args.root, args.table, args.checkpoint)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
