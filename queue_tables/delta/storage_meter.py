"""How often this process asks its storage, how long that takes, and what fails.

Plain numbers: whoever shows them reads `snapshot`. Executors and users' jobs count too, and nobody
looks; it costs less than a microsecond a request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lakequeue import metrics
from lakequeue.errors import LakequeueError
from lakequeue.metrics.declaring import Sample

OPERATIONS = {
    "reading": "get",
    "opening": "get",
    "writing": "put",
    "replacing": "put",
    "creating": "create",
    "looking for": "head",
    "listing": "list",
    "deleting": "delete",
    "removing": "delete",
    "syncing": "sync",
}
"""What a store is doing, as its errors say → the operation it counts as."""
_PAGE = 1_000
"""Objects that one request of a listing returns."""


@dataclass(slots=True)
class Usage:
    """What has been asked of storage so far."""

    requests: dict[str, int] = field(default_factory=dict)
    """By operation."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent in them, by operation."""
    errors: dict[str, int] = field(default_factory=dict)
    """By `operation/code`."""
    retries: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def plus(self, other: Usage) -> Usage:
        """Both together. Pure."""
        return Usage(
            _sum(self.requests, other.requests),
            _sum(self.seconds, other.seconds),
            _sum(self.errors, other.errors),
            self.retries + other.retries,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}


class Request:
    """Times one request. A class, not a generator: an empty poll of a tail takes ten microseconds,
    of which measuring must not take three."""

    __slots__ = ("_began", "_meter", "_operation")

    def __init__(self, meter: StorageMeter, operation: str) -> None:
        self._meter = meter
        self._operation = operation
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        code = error.code if isinstance(error, LakequeueError) else None
        self._meter.done(self._operation, time.perf_counter() - self._began, code)


class StorageMeter:
    """Counts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    def request(self, doing: str) -> Request:
        """One request, around which this is entered and left.

        What the storage refuses counts as an error, an answer such as "not there" does not.
        """
        return Request(self, OPERATIONS[doing])

    def done(self, operation: str, seconds: float, code: str | None) -> None:
        """A request has ended; with the code of its error, if it is one."""
        with self._lock:
            usage = self._usage
            usage.requests[operation] = usage.requests.get(operation, 0) + 1
            usage.seconds[operation] = usage.seconds.get(operation, 0.0) + seconds
            if code is not None:
                name = f"{operation}/{code}"
                usage.errors[name] = usage.errors.get(name, 0) + 1

    def listed(self, objects: int) -> None:
        """A listing had so many answers: beyond the first page each page is a request more."""
        more = max(0, objects - 1) // _PAGE
        if not more:
            return
        with self._lock:
            self._usage.requests["list"] = self._usage.requests.get("list", 0) + more

    def read(self, size: int) -> None:
        """Bytes came."""
        with self._lock:
            self._usage.read_bytes += size

    def wrote(self, size: int) -> None:
        """Bytes went."""
        with self._lock:
            self._usage.written_bytes += size

    def retried(self) -> None:
        """A commit is put again."""
        with self._lock:
            self._usage.retries += 1

    def snapshot(self) -> Usage:
        """The numbers as of now."""
        with self._lock:
            usage = self._usage
            return replace(
                usage,
                requests=dict(usage.requests),
                seconds=dict(usage.seconds),
                errors=dict(usage.errors),
            )


METER = StorageMeter()
"""Of this process. All its stores count here: what is paid for is requests, whoever made them."""


def samples(usage: Usage) -> Iterator[Sample]:
    """As metrics. Pure."""
    for operation, requests in usage.requests.items():
        seconds = usage.seconds.get(operation, 0.0)
        yield Sample(metrics.every.STORAGE_SECONDS, seconds, (operation,), requests)
    for name, errors in usage.errors.items():
        operation, _, code = name.partition("/")
        yield Sample(metrics.every.STORAGE_ERRORS, errors, (operation, code))
    yield Sample(metrics.every.STORAGE_RETRIES, usage.retries)
    yield Sample(metrics.every.STORAGE_READ, usage.read_bytes)
    yield Sample(metrics.every.STORAGE_WRITTEN, usage.written_bytes)
