"""Bodies with too many records are found before they are parsed, in no memory and linear time."""

from __future__ import annotations

import time
import tracemalloc

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import TooLarge
from queue_rules.produce.json_body import json_request_of
from queue_rules.produce.record_count import has_more
from queue_rules.produce.validation import Limits

LIMITS = Limits(4, "murmur2", 1 << 20, 10_000)
TEN_MILLION = 10_000_000
TOO_MANY = {
    "empty objects": b"{},",
    "zeros": b"0,",
    "empty texts": b'"",',
    "empty lists": b"[],",
}
ODD = {
    "deep lists": b'{"records":' + b"[" * (2 << 20),
    "deep objects": b'{"records":[' + b'{"a":' * (1 << 18),
    "lists in a value": b'{"records":[{"value":[' + b"[1]," * (1 << 18) + b"[1]]}]}",
    "quotes without an end": b'{"records":["' + b'\\"' * (1 << 20) + b"," * 50_000,
    "quotes and braces": b'{"records":[{"' + b"a{," * (1 << 19),
    "escapes": b'{"records":[{"value":"' + b"\\n" * (1 << 20) + b'"}]' + b" ," * 50_000,
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_ten_million_records_are_refused_in_no_memory(name: str) -> None:
    body = b'{"records":[' + TOO_MANY[name] * TEN_MILLION + b"{}]}"
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(TooLarge, match="10001 records or more"):
            json_request_of(body, "topic-1", LIMITS)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 2.0
    assert most < 1 << 20


@pytest.mark.parametrize("name", ODD)
def test_no_body_takes_longer_than_its_length(name: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    try:
        assert not has_more(ODD[name], 10_000, at=2)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 5.0
    assert most < 1 << 20


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a,"\\[]{}\n', max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


@given(records=st.lists(VALUES, max_size=8), most=st.integers(1, 8), after=VALUES)
def test_it_counts_as_the_parser_does(records: list[object], most: int, after: object) -> None:
    body = orjson.dumps({"consumed": {"a": 1}, "records": records, "z": {"z": after}})
    found = has_more(body, most, at=2)
    if found:
        assert len(records) > most
    elif len(records) > most:
        # Not passed over: the parser finds it, in little memory.
        assert body.count(b"{") <= most + 1
        assert body.count(b",") < 16 * most


@given(records=st.lists(VALUES, max_size=8), most=st.integers(1, 8))
def test_a_body_that_is_a_list_is_counted_likewise(records: list[object], most: int) -> None:
    if has_more(orjson.dumps(records), most, at=1):
        assert len(records) > most
