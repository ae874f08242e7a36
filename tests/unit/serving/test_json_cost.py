"""What JSON bodies become: never less than they do."""

from __future__ import annotations

import contextlib
import time
import tracemalloc

import orjson
import pytest

from lakequeue.errors import InvalidRequest, TooLarge
from queue_rules.produce.exact_json import _slowly, loads
from serving.json_cost import becomes, refuse_beyond

SIZE = 1 << 18
BODIES = {
    "lists": b"[" + b",".join([b"[]"] * (SIZE // 3)) + b"]",
    "objects": b"[" + b",".join([b"{}"] * (SIZE // 3)) + b"]",
    "small objects": b"[" + b",".join(b'{"a%d":1}' % n for n in range(SIZE // 12)) + b"]",
    "floats": b"[" + b",".join([b"0.1"] * (SIZE // 4)) + b"]",
    "integers": b"[" + b",".join(b"%d" % (1000 + n) for n in range(SIZE // 6)) + b"]",
    "short texts": b"[" + b",".join(b'"%x"' % n for n in range(SIZE // 8)) + b"]",
    "one text": b'["' + b"x" * SIZE + b'"]',
    "wide text": ('["' + "x" * SIZE + "\U0001f600" + '"]').encode(),
    "many names": b"{" + b",".join(b'"%d":1' % n for n in range(SIZE // 10)) + b"}",
}


@pytest.mark.parametrize("name", BODIES)
def test_the_estimate_is_not_below_what_parsing_takes(name: str) -> None:
    body = BODIES[name]
    tracemalloc.start()
    try:
        whole = orjson.loads(body)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert whole
    assert taken <= becomes(body)


def test_records_as_they_are_sent_cost_a_few_times_their_size() -> None:
    records = [{"key": f"k{n}", "value": "x" * 1_000} for n in range(1_000)]
    body = orjson.dumps({"records": records})
    assert becomes(body) < 3 * len(body)


def test_a_body_that_can_never_have_a_place_is_refused() -> None:
    with pytest.raises(TooLarge, match="max_parsed_bytes"):
        refuse_beyond(becomes(BODIES["lists"]), 2 << 20)


def _deep(count: int) -> bytes:
    """A name that is there twice, and a deep list with many elements behind it."""
    deep = b"[" * 900 + b",".join([b"1"] * count) + b"]" * 900
    return b'{"records":[' + deep + b',{"a":1,"a":2},' + deep + b"]}"


SLOW = {
    "a name twice beside a deep list": _deep(30_000),
    "names twice": b"[" + b",".join([b'{"a":1,"a":2}'] * (SIZE // 16)) + b"]",
    "many names and one twice": BODIES["many names"][:-1] + b',"0":1}',
    "long numbers": b"[" + b",".join([b"0.10000000000000000001"] * (SIZE // 23)) + b"]",
    "minus nothing": b"[" + b",".join([b"-0"] * (SIZE // 3)) + b"]",
    "lists and minus nothing": b"[" + b",".join([b"[]"] * (SIZE // 3)) + b",-0]",
    "objects and minus nothing": b"[" + b",".join([b"{}"] * (SIZE // 3)) + b",-0]",
    "floats and minus nothing": b"[" + b",".join([b"0.1"] * (SIZE // 4)) + b",-0]",
    "wide text and minus nothing": BODIES["wide text"][:-1] + b",-0]",
}


@pytest.mark.parametrize("name", BODIES | SLOW)
def test_a_slow_reading_takes_twice_the_estimate_at_most(name: str) -> None:
    body = (BODIES | SLOW)[name]
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidRequest):
            _slowly(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 2 * becomes(body)


def test_the_place_of_a_name_that_is_there_twice_is_told() -> None:
    with pytest.raises(InvalidRequest, match="record 1: the name 'a'") as refused:
        loads(_deep(10))
    assert refused.value.extra == {"record": 1, "field": "a"}
    with pytest.raises(InvalidRequest, match="the name 'b'") as refused:
        loads(b'{"x":[{"y":0},{"b":1,"b":2}]}')
    assert refused.value.extra == {"field": "x"}
    with pytest.raises(InvalidRequest, match="the name 'b'") as refused:
        loads(b'{"b":1,"b":2}')
    assert refused.value.extra == {"field": "b"}


def test_a_name_that_is_there_twice_is_found_in_linear_time() -> None:
    body = b"{" + b",".join(b'"%d":1' % n for n in range(200_000)) + b',"199999":2}'
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="twice"):
        loads(body)
    assert time.process_time() - began < 5
