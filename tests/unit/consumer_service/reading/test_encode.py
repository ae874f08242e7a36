"""Whatever stands in `log` can be delivered, and holds up nobody else."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from consumer_service.reading import encode
from consumer_service.reading.encode import COLUMNS, plain_records, records_of
from lakequeue.client.record import Record
from lakequeue.errors import InvalidRequest
from lakequeue.records import Format
from lakequeue.wire import UNDECODABLE, put_key_value
from queue_tables.schema.schemas import LOG
from tests.support.data.rows import raw_headers, raw_texts, rows_of

YEAR_30000 = 884_541_340_800_000_000
NOT_UTF8 = b"caf\xe9"


def rows(**columns: Any) -> pa.Table:
    """Rows of the log, as many as the first column has."""
    count = len(next(iter(columns.values())))
    given: dict[str, Any] = {
        "topic_id": ["t"] * count,
        "topic": ["orders"] * count,
        "partition": [0] * count,
        "offset": list(range(count)),
        "timestamp": [1] * count,
    }
    return rows_of(LOG, given | columns, ()).select(COLUMNS)


def through_the_wire(table: pa.Table) -> list[dict[str, Any]]:
    """As a client reads them."""
    answer: list[dict[str, Any]] = orjson.loads(orjson.dumps({"records": records_of(table, 1)}))[
        "records"
    ]
    return answer


@pytest.mark.parametrize(
    ("declared", "data"),
    [
        (Format.TEXT, NOT_UTF8),
        (Format.JSON, NOT_UTF8),
        (Format.JSON, b""),
        (Format.JSON, b"{"),
        (Format.JSON, b"1 2"),
        (Format.JSON, b'1,"value":2'),
        (Format.JSON, b"NaN"),
        (Format.JSON, b'"\\ud800"'),
        (Format.JSON, b"[" * 1_022 + b"]" * 1_022),
        (Format.JSON, b"[" * 100_000),
        (77, b"x"),
        (None, b"x"),
    ],
)
def test_bytes_that_are_not_what_their_format_says_come_as_bytes(
    declared: int | None, data: bytes
) -> None:
    formats = pa.array([declared, Format.TEXT], pa.int8())
    table = rows(
        key=[data, b"k"],
        value=[data, b"v"],
        key_format=formats.cast(LOG.arrow.field("key_format").type),
        value_format=formats.cast(LOG.arrow.field("value_format").type),
    )
    odd, plain = map(Record, through_the_wire(table))
    assert (odd.key, odd.value, odd.undecodable) == (data, data, None)
    assert (plain.key, plain.value) == ("k", "v")


def test_json_is_passed_through_byte_for_byte() -> None:
    deep = b"[" * 1_000 + b"]" * 1_000
    values = [b'{"a":12345678901234567.89}', b"[1, 2]", deep]
    table = rows(value=values, value_format=[Format.JSON] * 3)
    assert [bytes(orjson.dumps(r["value"])) for r in plain_records(table)] == values


def test_names_and_ids_that_are_not_utf8_come_with_their_bytes_escaped() -> None:
    table = rows(
        value=[b"v", b"w"],
        message_id=raw_texts([b"\xff\xfe", b"plain"]),
        headers=raw_headers([[(NOT_UTF8, NOT_UTF8), (b"a", None)], [(b"b", b"text")]]),
    )
    odd, plain = map(Record, through_the_wire(table))
    assert odd.headers == [("caf\\xe9", NOT_UTF8), ("a", None)]
    assert odd.message_id == "\\xff\\xfe"
    assert (plain.headers, plain.message_id) == ([("b", b"text")], "plain")


def test_any_number_of_headers_can_be_read() -> None:
    many = [(b"same", b"%d" % n) for n in range(1_000)]
    (record,) = map(Record, through_the_wire(rows(value=[b"v"], headers=raw_headers([many]))))
    assert len(record.headers) == 1_000


def test_times_beyond_what_a_datetime_holds_are_numbers() -> None:
    times = pa.array([YEAR_30000, -(1 << 62), None], pa.timestamp("us", "UTC"))
    table = rows(value=[b"a", b"b", b"c"], timestamp=times, deliver_at=times, expires_at=times)
    records = list(map(Record, through_the_wire(table)))
    assert [r.timestamp for r in records] == [YEAR_30000, -(1 << 62), 0]
    with pytest.raises(InvalidRequest, match=r"read \.timestamp"):
        _ = records[0].time
    assert next(n.deliver_at for n in encode.new_records_of(table, keys=True)) == YEAR_30000


def test_one_record_that_cannot_be_read_says_why_and_the_others_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unforeseen(record: dict[str, Any], name: Any, data: bytes | None, fmt: int | None) -> None:
        if data == b"guilty":
            raise KeyError("nobody thought of it")
        put_key_value(record, name, data, fmt)

    monkeypatch.setattr(encode, "put_key_value", unforeseen)
    said = through_the_wire(rows(value=[b"a", b"guilty", b"c"], value_format=[Format.TEXT] * 3))
    assert [r["value"] for r in said] == ["a", None, "c"]
    assert [r["offset"] for r in said] == [0, 1, 2]
    assert [r.get(UNDECODABLE) for r in said] == [None, "KeyError: 'nobody thought of it'", None]
    assert said[1]["receipt"] == "t.0.1.1.1", "it can be acked like any other"
