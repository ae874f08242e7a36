"""Records that came in columns are handed out as those that came in JSON, and cost less."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakequeue.calling.effects import Reply
from lakequeue.client.consuming.fetch_buffer import FetchBuffer
from lakequeue.client.consuming.poll_answers import read_poll
from lakequeue.client.message import Message
from lakequeue.errors import Broken, SkippedRecords
from lakequeue.records import Format
from lakequeue.wire import ARROW_STREAM, Assigned, receipt_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("key", pa.binary()), ("key_format", pa.int32()), ("value", pa.binary()),
        ("value_format", pa.int32()), ("headers", HEADERS),
        ("timestamp", pa.timestamp("us", tz="UTC")), ("message_id", pa.string()),
        ("receipt", pa.string()),
    ],
    metadata={"lakequeue": "{}"},
)  # fmt: skip


def row(topic: str, partition: int, offset: int, value: bytes | None = b"v") -> dict[str, Any]:
    return {
        "topic": topic, "partition": partition, "offset": offset, "key": b"k%d" % offset,
        "key_format": int(Format.TEXT), "value": value, "value_format": int(Format.BYTES),
        "headers": [{"key": "h", "value": b"%d" % offset}] if offset % 2 else [],
        "timestamp": 1_000_000 + offset, "message_id": f"m{offset}",
        "receipt": receipt_of("id", partition, offset, 1),
    }  # fmt: skip


def answer(*batches: list[dict[str, Any]]) -> Any:
    """The records of an answer in columns."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as out:
        for rows in batches:
            out.write_table(pa.Table.from_pylist(rows, SCHEMA))
    body = bytes(sink.getvalue())
    return read_poll(Reply(200, {"content-type": ARROW_STREAM}, body))["records"]


def buffer_of(*batches: list[dict[str, Any]]) -> FetchBuffer:
    buffer = FetchBuffer("billing")
    places = {(one["topic"], one["partition"]) for rows in batches for one in rows}
    buffer.joined(1, [Assigned(topic=t, partition=p, epoch=1) for t, p in sorted(places)])
    buffer.received(answer(*batches), lambda message, through: buffer.ack(message, through))
    return buffer


def take(buffer: FetchBuffer, most: int) -> list[Message]:
    return [message for run in buffer.take(most) for message in run.messages()]


def places(messages: list[Message]) -> list[tuple[str, int, int]]:
    return [(m.topic, m.partition, m.offset) for m in messages]


def test_records_of_all_partitions_and_topics_come_in_their_order() -> None:
    first = [row("orders", 0, 5), row("orders", 0, 6), row("orders", 1, 0)]
    second = [row("orders", 1, 1), row("other", 1, 3), row("order", 1, 4)]
    buffer = buffer_of(first, second)
    assert buffer.ready == 6
    assert places(take(buffer, 4)) == [
        ("orders", 0, 5), ("orders", 0, 6), ("orders", 1, 0), ("orders", 1, 1),
    ]  # fmt: skip
    assert buffer.ready == 2
    assert places(take(buffer, 9)) == [("other", 1, 3), ("order", 1, 4)]


def test_one_by_one_and_together_in_turn() -> None:
    buffer = buffer_of([row("orders", 0, n, b"%d" % n) for n in range(6)])
    seen = [buffer.next()]
    seen += take(buffer, 2)
    seen.append(buffer.next())
    seen += take(buffer, 9)
    assert [m and m.value for m in seen] == [b"%d" % n for n in range(6)]
    assert (buffer.ready, buffer.next()) == (0, None)


def test_a_message_has_all_that_came() -> None:
    buffer = buffer_of([row("orders", 0, n, None if n == 1 else b"\xff") for n in range(3)])
    messages = take(buffer, 3)
    for n, message in enumerate(messages):
        assert (message.key, message.offset, message.message_id) == (f"k{n}", n, f"m{n}")
        assert message.timestamp == 1_000_000 + n
        assert message.headers == ([("h", b"%d" % n)] if n % 2 else [])
        assert message.receipt == receipt_of("id", 0, n, 1)
        assert message.topic_id == "id"
        assert (message.epoch, message.membership, message.attempt) == (1, 1, 1)
        assert message.undecodable is None
    assert [m.value for m in messages] == [b"\xff", None, b"\xff"]
    assert messages[0].document()["value_base64"] == "/w=="
    assert repr(messages[2]) == "<Message orders/0@2 key='k2'>"
    assert not hasattr(messages[0], "nothing")


def test_a_message_keeps_no_value_of_others() -> None:
    value = b"x" * 100_000
    (message, *_) = take(buffer_of([row("orders", 0, n, value) for n in range(10)]), 10)
    seen, sizes = set[int](), 0
    waiting: list[Any] = [message]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or callable(one):
            continue
        seen.add(id(one))
        sizes += len(one) if isinstance(one, bytes) else 0
        if isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
        else:
            slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
            waiting += [getattr(one, name) for name in slots if name != "_raw"]
            waiting += getattr(one, "__dict__", {}).values()
    assert len(value) <= sizes < 2 * len(value)


def test_what_waits_of_a_revoked_partition_is_not_handed_out() -> None:
    buffer = buffer_of([row("orders", 0, 0), row("orders", 0, 1), row("orders", 1, 7)])
    assert buffer.next() is not None
    buffer.assigned(2, [Assigned(topic="orders", partition=1, epoch=1)])
    assert buffer.ready == 1
    assert places(take(buffer, 5)) == [("orders", 1, 7)]


def test_acks_of_columns_go_in_order() -> None:
    buffer = buffer_of([row("orders", 0, n) for n in range(4)])
    first, second, third, fourth = take(buffer, 4)
    with pytest.raises(SkippedRecords):
        second.ack()
    first.ack()
    third.ack(commit_through=True)
    fourth.ack()
    acks, number = buffer.take_acks()
    assert ([m.offset for m in acks], number) == ([3], 3)


def test_a_range_of_columns_is_of_one_partition() -> None:
    buffer = buffer_of(
        [row("orders", 0, 3), row("orders", 0, 4), row("orders", 1, 0)], [row("orders", 1, 1)]
    )
    spans = [buffer.take_range(10) for _ in range(3)]
    found = [span and (span.partition, span.from_offset, span.next_offset) for span in spans]
    assert found == [(0, 3, 5), (1, 0, 2), None]


def test_cells_that_lie_outside_break_the_poll() -> None:
    table = pa.Table.from_pylist([row("orders", 0, n) for n in range(3)], SCHEMA)
    at = SCHEMA.get_field_index("value")
    wrong = pa.Array.from_buffers(
        pa.binary(), 3, [None, pa.array([0, 1, 1 << 20, 3], pa.int32()).buffers()[1],
                         pa.py_buffer(b"abc")],
    )  # fmt: skip
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as out:
        out.write_table(table.set_column(at, SCHEMA.field(at), wrong))
    reply = Reply(200, {"content-type": ARROW_STREAM}, bytes(sink.getvalue()))
    buffer = FetchBuffer("billing")
    buffer.joined(1, [Assigned(topic="orders", partition=0, epoch=1)])
    buffer.received(read_poll(reply)["records"], None)
    with pytest.raises(Broken, match="cannot be read"):
        take(buffer, 3)
