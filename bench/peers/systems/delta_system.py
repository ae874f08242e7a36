"""Delta tables without a queue: delta-rs appends, Spark's Delta source streams."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import ClassVar

from bench.peers.systems.system import Speaks, System


class Delta(System):
    """There is no service: the producer commits, and the consumer is a Spark query."""

    name: ClassVar = "delta"
    title: ClassVar = "plain Delta: delta-rs append → Spark's Delta source"
    promise: ClassVar = "in the page cache; delta-rs fsyncs neither files nor commits"
    settings: ClassVar = (
        "one table, one writer, which appends all that waits as one commit; a checkpoint every 100 "
        "commits; Spark 4.2 and Delta 4.4, `local[2]`, trigger 0 s, tuned as for Kafka; no "
        "offsets, no acks, no groups; memory is that of its clients"
    )
    has_spark: ClassVar = True

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to end."""

    def pids(self) -> list[int]:
        """No process of its own: the clients do the work."""
        return []

    def _at(self) -> dict[str, str]:
        return {"table": str(self.folder / "table"), "folder": str(self.folder)}

    def sender(self, topic: str = "bench") -> Speaks:
        """The writer."""
        return Speaks("delta", self._at())

    def receivers(self) -> dict[str, Speaks]:
        """A streaming query; and a reader of the table."""
        python = Path(sys.executable)
        return {
            "consumer": Speaks("delta-source", self._at(), python),
            "sql": Speaks("commits", self._at(), python),
        }

    @classmethod
    def version(cls) -> str:
        """Of both engines."""
        names = ("deltalake", "delta-spark")
        return ", ".join(f"{name} {metadata.version(name)}" for name in names)
