"""The job of many lakehouses: a topic of Kafka appended to a Delta table, at its best tuning found.

python -m bench.peers.systems.kafka_to_delta --servers HOST:PORT --folder DIR
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bench.streaming import LOW_LATENCY
from lakequeue.processes.java import find_java
from lakequeue.processes.spark_sessions import delta_settings
from tests.support.spark.kafka import source_jars
from tests.support.spark.spark_session import start_spark


def main() -> None:
    """Start the query; end with the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java().home)
    delta = delta_settings()["spark.driver.extraClassPath"]
    path = ":".join((delta, *map(str, source_jars())))
    spark = start_spark(
        args.folder,
        LOW_LATENCY
        | {
            "spark.driver.extraClassPath": path,
            "spark.driver.memory": "2g",
            # The values are written as they come: no statistics of random bytes.
            "spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols": "1",
            "spark.databricks.delta.properties.defaults.checkpointInterval": "200",
        },
    )
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "bench")
        .option("startingOffsets", "earliest")
        # One task reads the partitions one after the other, and waits so long at the end of each.
        .option("kafka.fetch.max.wait.ms", "10")
        .load()
        .select("partition", "offset", "timestamp", "value")
        .coalesce(1)
    )
    query = (
        records.writeStream.format("delta")
        .option("checkpointLocation", str(args.folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start(str(args.folder / "table"))
    )
    sys.stdout.write("streaming\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main()
