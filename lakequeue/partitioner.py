"""Which partition a record goes to: explicit, else by its key, else sticky round robin.

Pure. `crc32` is the default because Spark SQL computes the same value without a UDF
(`crc32(key) % n`). `murmur2` puts a key where Kafka's default partitioner puts it (Kafka's
`Utils.murmur2`, seed 0x9747b28c, sign bit cleared), for topics that move over from there.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from lakequeue.errors import InvalidRequest
from lakequeue.records import Partition

_M32 = 0xFFFFFFFF
_MURMUR_M = 0x5BD1E995
_MURMUR_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 of `data`, unsigned."""
    length = len(data)
    h = _MURMUR_SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little")
        k = k * _MURMUR_M & _M32
        k ^= k >> 24
        h = (h * _MURMUR_M & _M32) ^ (k * _MURMUR_M & _M32)
    if length & 3:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _MURMUR_M & _M32
    h ^= h >> 13
    h = h * _MURMUR_M & _M32
    return h ^ (h >> 15)


def _by_crc32(key: bytes, partitions: int) -> int:
    return zlib.crc32(key) % partitions


def _by_murmur2(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


PARTITIONERS: dict[str, Callable[[bytes, int], int]] = {"crc32": _by_crc32, "murmur2": _by_murmur2}
"""By the name that stands in the topic: (key, number of partitions) → partition."""


def partition_of(key: bytes, partitions: int, partitioner: str = "crc32") -> Partition:
    """The partition of a record with this key.

    Raises `InvalidRequest` for a partitioner that this release does not know.
    """
    try:
        rule = PARTITIONERS[partitioner]
    except KeyError:
        raise InvalidRequest(
            f"partitioner {partitioner!r} is not known",
            hint=f"one of {', '.join(PARTITIONERS)}",
            field="partitioner",
        ) from None
    return Partition(rule(key, partitions))


class StickyRoundRobin:
    """Partitions for records without a key: stay on one for `sticky_bytes`, then take the next.

    Staying makes runs in a partition, which compress and read better than single records; moving
    on by bytes keeps the partitions even. Not thread-safe.
    """

    def __init__(self, sticky_bytes: int = 16 << 10, start: int = 0) -> None:
        self._sticky_bytes = sticky_bytes
        self._at = start
        self._left = sticky_bytes

    def take(self, size: int, partitions: int) -> Partition:
        """The partition of the next record of `size` bytes, of a topic that has `partitions`."""
        if self._left <= 0:
            self._at += 1
            self._left = self._sticky_bytes
        self._left -= size
        return Partition(self._at % partitions)
