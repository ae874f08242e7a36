"""What the bench asks of each system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from bench.peers.processes import PEERS_PYTHON

SIZES = (1_000, 100)
"""Bytes of a record."""
DRAINS = {f"drain-{size}": size for size in SIZES}
"""Topics that are filled, and then drained."""


@dataclass(frozen=True)
class Speaks:
    """A client: its adapter, where the system is, and the Python that has its library."""

    adapter: str
    at: Mapping[str, Any]
    python: Path = field(default=PEERS_PYTHON)


class System(ABC):
    """One system, started anew for each round, in a folder of its own."""

    name: ClassVar[str]
    title: ClassVar[str]
    promise: ClassVar[str]
    """What an acknowledgement says of the disk."""
    settings: ClassVar[str]
    """What was set, and where partitions went."""
    has_spark: ClassVar[bool] = False
    """Warms up longer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def start(self) -> None:
        """Start it, and return when it is ready. Raises `NotAvailable` or `Failed`."""

    @abstractmethod
    def stop(self) -> None:
        """End them."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Its own processes, without what is below them."""

    @abstractmethod
    def sender(self, topic: str = "bench") -> Speaks:
        """Who sends."""

    @abstractmethod
    def receivers(self) -> dict[str, Speaks]:
        """Who receives: `consumer`, `sql`, or both. The first is the one that throughput counts."""

    def worker(self, topic: str) -> Speaks | None:
        """Who takes ten and settles ten; None if the system has no work queue."""
        return None

    def drainer(self, topic: str) -> Speaks | None:
        """Who reads what stands in the log already; None if that is not measured."""
        return None

    def stands(self, topic: str, count: int, within_s: float) -> None:  # noqa: B027 - most need not
        """Wait until a new consumer can read that many records: all that were acknowledged."""

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """Which release was measured."""
