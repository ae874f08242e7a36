"""A poll's answer in columns says what its JSON says, or is none."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumer_service.reading.columns import SCHEMA, InColumns, Part, columns_of
from consumer_service.reading.encode import COLUMNS, records_of
from lakequeue.calling.effects import Reply
from lakequeue.client.consuming.poll_answers import read_poll
from lakequeue.client.message import Message
from lakequeue.errors import Broken
from lakequeue.records import Format
from lakequeue.wire import ARROW_STREAM, JSON
from queue_tables.schema.schemas import LOG
from tests.support.data.rows import raw_headers, raw_texts, rows_of

PLACE = ("orders", 3)
BESIDE = {"poll": 5, "assignment": [{"topic": "orders", "partition": 3}], "assignment_version": 2}
ODD = [
    (Format.TEXT, b"caf\xe9"),
    (Format.JSON, b"caf\xe9"),
    (Format.JSON, b""),
    (Format.JSON, b"{"),
    (Format.JSON, b"1 2"),
    (Format.JSON, b'1,"value":2'),
    (Format.JSON, b"NaN"),
    (Format.JSON, b'"\\ud800"'),
    (Format.JSON, b"[" * 1_000 + b"]" * 1_000),
    (Format.JSON, b"[" * 1_022 + b"]" * 1_022),
    (Format.JSON, b"12345678901234567890123"),
    (Format.JSON, b"9" * 400),
    (Format.JSON, b"1e999"),
    (Format.JSON, b'{"a":1.5,"a":2}'),
    (77, b"x"),
    (None, b"x"),
]
PAYLOAD = (
    st.tuples(st.just(Format.BYTES), st.none() | st.binary(max_size=8))
    | st.tuples(st.just(Format.TEXT), st.text(max_size=8).map(str.encode))
    | st.tuples(st.just(Format.JSON), st.integers().map(lambda n: b"[%d]" % n))
    | st.sampled_from(ODD)
)
HEADERS = st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)}),
    max_size=2,
)


def rows(payloads: list[tuple[Any, Any]], **columns: Any) -> pa.Table:
    """Rows of the log, keyed by what is their value too."""
    count = len(payloads)
    formats = [None if fmt is None else int(fmt) for fmt, _ in payloads]
    given: dict[str, Any] = {
        "topic_id": ["t"] * count,
        "topic": ["orders"] * count,
        "partition": [3] * count,
        "offset": list(range(10, 10 + count)),
        "key": [data for _, data in payloads],
        "value": [data for _, data in payloads],
        "key_format": formats,
        "value_format": formats,
        "timestamp": [1_359_615_600_000_000] * count,
    }
    return rows_of(LOG, given | columns, ()).select(COLUMNS)


def read(body: bytes | memoryview, kind: str) -> tuple[list[Message], dict[str, Any]]:
    answer = read_poll(Reply(200, {"content-type": kind}, bytes(body)))
    records = answer.pop("records")
    return [Message(raw, 7, 1, None) for raw in records], answer


def told(message: Message) -> tuple[Any, ...]:
    return (
        message.topic, message.partition, message.offset, message.key, message.value,
        message.headers, message.timestamp, message.message_id, message.receipt, message.attempt,
        message.topic_id, orjson.dumps(_plain(message.document())),
    )  # fmt: skip


def _plain(document: dict[str, Any]) -> list[tuple[str, str]]:
    """In any order; `null` may stand under either name."""
    return sorted((name, repr(value)) for name, value in document.items())


@example([((Format.JSON, b"9" * 30), []), (ODD[8], [])], 0)
@given(st.lists(st.tuples(PAYLOAD, HEADERS), min_size=1, max_size=6), st.integers(0, 5))
def test_columns_say_what_json_says(
    some: list[tuple[tuple[Any, Any], list[dict[str, Any]]]], cut: int
) -> None:
    table = rows([payload for payload, _ in some], headers=[headers for _, headers in some])
    table = table.slice(min(cut, table.num_rows - 1))
    part = Part(PLACE, 7, table)
    in_json, beside = read(orjson.dumps({"records": records_of(table, 7), **BESIDE}), JSON)
    in_columns, also = read(InColumns(parts=[part]).body(BESIDE), ARROW_STREAM)
    assert list(map(told, in_columns)) == list(map(told, in_json))
    assert beside == also == BESIDE
    assert orjson.dumps(list(InColumns(parts=[part]))) == orjson.dumps(records_of(table, 7))
    text = InColumns("json", [part, part]).body(BESIDE)
    assert text == orjson.dumps({"records": records_of(table, 7) * 2, **BESIDE})


ALIKE: dict[str, tuple[int, list[bytes | None]]] = {
    "plain texts": (Format.TEXT, [b"a", b"", "é \x7f".encode()]),
    "texts to escape": (Format.TEXT, [b'a"b', b"a", b"a\\", b"\n"]),
    "texts that are none": (Format.TEXT, [b"a", b"caf\xe9"]),
    "JSON": (Format.JSON, [b'{"a":  1}', b"[]", b"null", b'"x"']),
    "JSON, and what is none": (Format.JSON, [b"1", b"1,2"]),
    "bytes": (Format.BYTES, [b"a", b""]),
    "a missing one": (Format.TEXT, [b"a", None]),
    "only missing ones": (Format.TEXT, [None, None]),
    "another format": (77, [b"a", b"b"]),
}


@pytest.mark.parametrize("case", ALIKE)
def test_rows_that_are_alike_become_the_same_json(case: str) -> None:
    fmt, values = ALIKE[case]
    count = len(values)
    ids = [f'id "{n}"' if n % 2 else f"id-{n}" for n in range(count)]
    for message_ids in (None, ids, ids[:1] + [None] * (count - 1), ["m"] * count):
        given = {} if message_ids is None else {"message_id": message_ids}
        table = rows([(fmt, value) for value in values], **given)
        part = Part(PLACE, 7, table)
        text = InColumns("json", [part]).body({})
        assert text == orjson.dumps({"records": records_of(table, 7)})


def test_a_time_that_is_missing_and_several_parts() -> None:
    parts = [
        Part(("orders", number), number, rows([(0, b"a")] * 2, timestamp=[None, 5]))
        for number in (3, 4)
    ]
    found = InColumns(parts=parts)
    assert found.make()
    assert len(found) == 4
    stream = pa.ipc.open_stream(found.body(BESIDE))
    assert [batch.num_rows for batch in stream] == [4], "each batch costs its reader as much"
    messages, _ = read(found.body(BESIDE), ARROW_STREAM)
    assert [message.timestamp for message in messages] == [0, 5] * 2
    assert [message.receipt for message in messages] == [
        f"t.{number}.{offset}.{number}.1" for number in (3, 4) for offset in (10, 11)
    ]
    assert [len(found.without({place})) for place in (("orders", 3), ("orders", 9))] == [2, 4]


def test_what_has_no_columns_leaves_as_json() -> None:
    odd = rows([(0, b"a")] * 2, message_id=raw_texts([b"caf\xe9", b"m"]))
    assert columns_of([Part(PLACE, 7, rows([(0, b"a")])), Part(PLACE, 7, odd)]) is None
    assert not InColumns(parts=[Part(PLACE, 7, odd)]).make()
    names = rows([(0, b"a")], headers=raw_headers([[(cast("bytes", None), b"v")]]))
    assert columns_of([Part(PLACE, 7, names)]) is None
    names = rows([(0, b"a")], headers=raw_headers([[(b"caf\xe9", b"v")]]))
    assert columns_of([Part(PLACE, 7, names)]) is None


def test_arrow_reads_it_too() -> None:
    part = Part(PLACE, 7, rows([(Format.BYTES, b"a"), (Format.TEXT, b"b")]))
    table = pa.ipc.open_stream(InColumns(parts=[part]).body(BESIDE)).read_all()
    assert table.schema.names == SCHEMA.names
    assert table["receipt"].to_pylist() == ["t.3.10.7.1", "t.3.11.7.1"]
    assert orjson.loads(table.schema.metadata[b"lakequeue"]) == BESIDE


@pytest.mark.parametrize("body", [b"", b"\xff" * 16, b"no stream"])
def test_an_answer_that_is_none_is_broken(body: bytes) -> None:
    with pytest.raises(Broken):
        read(body, ARROW_STREAM)
