"""Assignments that are long fit into ZooKeeper."""

from __future__ import annotations

import orjson
import pytest

from coordination.groups.large_nodes import MOST, packed, unpacked
from lakequeue.errors import TooLarge


def assignment(partitions: int, topics: int = 1) -> bytes:
    targets = [
        ["t" * 239 + str(topic), f"{topic:032x}", number]
        for topic in range(topics)
        for number in range(partitions)
    ]
    return orjson.dumps({"version": 1, "epoch": 1, "members": {"m" * 32: targets}})


def test_a_short_one_stays_as_it_is() -> None:
    data = assignment(10)
    assert packed(data) == data
    assert unpacked(data) == data


@pytest.mark.parametrize(("partitions", "topics"), [(4_000, 1), (10_000, 9)])
def test_a_long_one_fits(partitions: int, topics: int) -> None:
    data = assignment(partitions, topics)
    assert len(data) > MOST
    written = packed(data)
    assert len(written) < MOST
    assert unpacked(written) == data


def test_one_that_cannot_fit_is_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordination.groups.large_nodes.MOST", 1_000)
    with pytest.raises(TooLarge, match="fewer partitions"):
        packed(assignment(4_000))
