"""Partition choice: values that Spark SQL and Kafka compute too."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.partitioner import StickyRoundRobin, murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        # The vectors of Kafka's own UtilsTest.testMurmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_murmur2_partition_clears_the_sign_bit() -> None:
    assert partition_of(b"21", 7, "murmur2") == (-973932308 & 0x7FFFFFFF) % 7


def test_crc32_is_the_check_value_of_the_standard() -> None:
    assert zlib.crc32(b"123456789") == 0xCBF43926
    assert partition_of(b"123456789", 1000) == 0xCBF43926 % 1000
    assert partition_of(b"", 8) == 0


def test_unknown_partitioner_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="crc32, murmur2"):
        partition_of(b"k", 4, "fnv")


def test_sticky_round_robin_stays_and_then_moves() -> None:
    rule = StickyRoundRobin(sticky_bytes=100)
    assert [rule.take(50, 3) for _ in range(8)] == [0, 0, 1, 1, 2, 2, 0, 0]


def test_sticky_round_robin_is_even_and_survives_another_partition_count() -> None:
    rule = StickyRoundRobin(sticky_bytes=10, start=5)
    counts = Counter(rule.take(10, 4) for _ in range(400))
    assert set(counts.values()) == {100}
    assert rule.take(10, 1) == 0
