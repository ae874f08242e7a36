"""A streaming query on a Delta table, whose batches are noted when they are here."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Sequence
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame

from bench.peers.clients.interface import Place
from bench.streaming import LOW_LATENCY
from lakequeue.processes.java import find_java
from tests.support.spark.spark_session import start_spark

_TABLE_WITHIN_S = 60.0


class DeltaSourceReceiver:
    """`readStream.format("delta")` into `foreachBatch`."""

    def __init__(self, at: Place) -> None:
        self._batches: queue.Queue[list[bytes]] = queue.Queue()
        os.environ["JAVA_HOME"] = str(find_java().home)
        self._spark = start_spark(Path(at["folder"]), LOW_LATENCY)
        until = time.monotonic() + _TABLE_WITHIN_S
        while not DeltaTable.is_deltatable(at["table"]) and time.monotonic() < until:
            time.sleep(0.1)
        self._query = (
            self._spark.readStream.format("delta")
            .load(at["table"])
            .select("value")
            .writeStream.foreachBatch(self._arrived)
            .option("checkpointLocation", f"{at['folder']}/source-checkpoint")
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _arrived(self, frame: DataFrame, _number: int) -> None:
        self._batches.put(frame.toArrow()["value"].to_pylist())

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """The next batch, whole."""
        if (problem := self._query.exception()) is not None:
            raise RuntimeError("the query has failed") from problem
        try:
            return self._batches.get(timeout=seconds)
        except queue.Empty:
            return []

    def settle(self) -> None:
        """The query's checkpoint does."""

    def close(self) -> None:
        """End the query and the session."""
        self._query.stop()
        self._spark.stop()
