"""What is sent as JSON is kept as it was sent, or refused: the table in docs/http-ingest.md."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from ingest.http.bodies import request_of
from lakequeue.errors import InvalidRequest, MalformedBody
from queue_rules.produce.arrival import fill_in
from queue_rules.produce.exact_json import loads
from queue_rules.produce.validation import Limits

LIMITS = Limits(4, "crc32", 1 << 20, 100)


def stored(value: str, kind: str = "json") -> bytes | None:
    """How a value is stored that is sent as this JSON text."""
    found: bytes | None = rows_of(value, kind).values[0]
    return found


def rows_of(value: str, kind: str = "json") -> Any:
    record = f'{{"value" : {value}}}'
    event = f'{{"specversion":"1.0","id":"1","source":"s","type":"t","data": {value}}}'
    body = {
        "json": f'{{"records": [{record}]}}',
        "ndjson": record,
        "event": event,
        "events": f"[{event}]",
    }[kind]
    return request_of(body.encode(), kind, {}, "t", LIMITS).rows


KEPT = {
    "an integer of 64 bits": "18446744073709551615",
    "an integer beyond 64 bits": "123456789012345678901234567890",
    "a negative one": "-9223372036854775809",
    "digits that a float has not": "12345678901234567.89",
    "seventeen digits": "0.12345678901234567",
    "sixteen digits and an exponent": "9007199254740993e0",
    "a number that is nearly nothing": "1e-400",
    "an exponent of twenty digits": "1e-99999999999999999999",
    "minus nothing": "-0",
    "within an object": '{"n":[1,12345678901234567.89,{"m":123456789012345678901}]}',
    "a name that looks like one": '{"12345678901234567.89":1}',
}


@pytest.mark.parametrize("kind", ["json", "ndjson", "event", "events"])
@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_numbers_are_kept_with_all_their_digits(text: str, kind: str) -> None:
    assert stored(text, kind) == text.encode()


def test_a_number_may_be_written_otherwise_if_it_is_the_same() -> None:
    assert stored("1.10") == b"1.1"
    assert stored("1E2") == b"100.0"
    assert stored('{"a" : [ 1 , 2.50 ] }') == b'{"a":[1,2.5]}'


TWICE = ['{"a":1,"a":2}', '{"x":[{"a":1, "b" : 2, "a":1}]}', '{"a":1,"a":2,"t":"\\u003a"}']


@pytest.mark.parametrize("kind", ["json", "ndjson", "event", "events"])
@pytest.mark.parametrize("text", TWICE)
def test_a_name_that_is_there_twice_is_refused(text: str, kind: str) -> None:
    with pytest.raises(InvalidRequest, match="the name 'a' is there twice") as refused:
        stored(text, kind)
    extra = refused.value.extra
    if kind in {"json", "ndjson"}:
        assert (extra["record"], extra["field"]) == (0, "value")
    assert refused.value.stored == "no"


def test_a_field_that_is_there_twice_is_refused() -> None:
    for body in (
        b'{"records": [{"value":1}, {"value":1,"value":2}]}',
        b'{"records":[],"records":[]}',
    ):
        with pytest.raises(InvalidRequest, match="is there twice"):
            request_of(body, "json", {}, "t", LIMITS)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "1e400", '"\\ud800"', '"\\udc00x"']
)
@pytest.mark.parametrize("kind", ["json", "ndjson", "event", "events"])
def test_what_is_no_json_or_no_text_is_refused(text: str, kind: str) -> None:
    with pytest.raises(MalformedBody, match="not JSON"):
        stored(text, kind)
    with pytest.raises(MalformedBody, match="not JSON"):
        stored(f"[1,-0,12345678901234567.89,{text}]", kind)


def test_escapes_become_the_characters_that_they_are() -> None:
    assert stored('"\\u0041\\ud83d\\ude00\\u0000"') == "A😀\x00".encode()


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1969-12-31T23:59:59.999998Z", -2),
        ("1970-01-01T00:00:00Z", 0),
        ("1900-01-01T00:00:00Z", -2_208_988_800_000_000),
    ],
)
def test_a_time_before_1970_is_the_record_s_own(text: str, micros: int) -> None:
    body = orjson.dumps({"records": [{"value": 1, "timestamp": text}, {"value": 2}]})
    rows = request_of(body, "json", {}, "t", LIMITS).rows
    fill_in(rows, 1_700_000_000_000_000, None)
    assert rows.timestamps == [micros, 1_700_000_000_000_000]


@pytest.mark.parametrize("seed", range(30))
def test_random_json_comes_out_as_it_went_in(seed: int) -> None:
    rng = random.Random(seed)

    def some(depth: int) -> Any:
        kind = rng.randrange(8 if depth else 6)
        if kind == 6:
            return [some(depth - 1) for _ in range(rng.randrange(4))]
        if kind == 7:
            return {f'k{n}:"{n}': some(depth - 1) for n in range(rng.randrange(4))}
        return [
            rng.randint(-(1 << 70), 1 << 70),
            rng.uniform(-1e300, 1e300),
            rng.random(),
            rng.choice([None, True, False]),
            'x:"\u00e9\ud83d\ude00'[: rng.randrange(4)],
            rng.randint(-5, 5),
        ][kind]

    value = some(4)
    ascii_, spaces = rng.random() < 0.5, rng.choice([(",", ":"), (", ", ": ")])
    text = json.dumps(value, ensure_ascii=ascii_, separators=spaces)
    assert json.loads(orjson.dumps(loads(text.encode()))) == value
