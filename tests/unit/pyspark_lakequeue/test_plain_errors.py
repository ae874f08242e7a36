"""What Spark prints of a request that is wrong: the message, and no frames of ours before it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from lakequeue.errors import Broken, LakequeueError
from pyspark_lakequeue import DefaultSource
from pyspark_lakequeue.plain_errors import plainly
from queue_tables.root import QueueRoot


def printed(call: Callable[[], object]) -> list[str]:
    """As Spark's workers print it."""
    try:
        call()
    except LakequeueError:
        return traceback.format_exc().splitlines()
    raise AssertionError("nothing was raised")


def test_an_unknown_option_is_said_in_a_few_lines() -> None:
    source = DefaultSource({"root": "/nowhere", "subscribe": "orders", "startingOfsets": "latest"})
    lines = printed(source.schema)
    assert "did you mean startingOffsets" in lines[-1]
    assert "options.py" not in "\n".join(lines)
    assert len(lines) <= 8, "\n".join(lines)


def test_an_unknown_topic_is_said_in_a_few_lines(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path)).uri
    source = DefaultSource({"root": root, "subscribe": "orders", "startingOffsets": "earliest"})
    from pyspark.sql.types import StructType

    from pyspark_lakequeue.source.batch_reader import BatchReader
    from pyspark_lakequeue.source.options import read_options
    from pyspark_lakequeue.source.stream_reader import StreamReader

    schema = StructType()
    batch = BatchReader(read_options(source.options, streaming=False), schema)
    stream = StreamReader(read_options(source.options, streaming=True), schema)
    for call in (batch.partitions, stream.initialOffset):
        lines = printed(call)
        assert "topic 'orders' does not exist" in lines[-1]
        assert len(lines) <= 8, "\n".join(lines)


def test_what_is_broken_keeps_its_frames() -> None:
    def breaks() -> None:
        raise Broken("the file is damaged")

    assert any("in breaks" in line for line in printed(plainly(breaks)))
    with pytest.raises(ZeroDivisionError):
        plainly(lambda: 1 // 0)()
