"""Searches of a body say what `bytes` and a parser say, however long it is."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queue_rules.produce import exact_json
from queue_rules.produce.byte_search import count, has_pair, without_texts

BODIES = st.builds(
    lambda part, times, end: part * times + end,
    st.text('-0eE":, \\[{', max_size=8).map(str.encode),
    st.sampled_from([1, 700, 9_000, 70_000]),
    st.text("-0e", max_size=3).map(str.encode),
)
PIECE = 1 << 16


@given(BODIES, st.sampled_from([b",", b":", b"[", b"{"]))
def test_count(body: bytes, byte: bytes) -> None:
    assert count(body, byte) == body.count(byte)


@given(BODIES, st.sampled_from([b"-0", b"e-", b"E-", b"\\u", b"--"]))
@example(b" " * (PIECE - 1) + b"-0" + b" " * PIECE, b"-0")  # across two pieces
@example(b" " * (PIECE - 1) + b"-", b"-0")
@example(b" " * PIECE + b"-", b"-0")
def test_pairs(body: bytes, pair: bytes) -> None:
    assert has_pair(body, pair) == (pair in body)


@given(st.lists(st.text("a-0,:[", max_size=40), max_size=6), st.sampled_from([1, 40, 2_000]))
def test_without_texts(texts: list[str], times: int) -> None:
    body = json.dumps(texts * times).encode()
    assert without_texts(body) == re.sub(rb'"[^"]*"', b'"', body)


def test_texts_like_numbers_are_not_read_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(body: bytes) -> Any:
        raise AssertionError(body[:80])

    monkeypatch.setattr(exact_json, "_slowly", slowly)
    names = [f"{uuid.UUID(int=n << 64 | n)} 123456789012345678901 1e-300" for n in range(50)]
    body = json.dumps({"records": [{"value": {"id": name, "n": 7}} for name in names]}).encode()
    assert exact_json.loads(body) == json.loads(body)


@pytest.mark.parametrize("number", ["123456789012345678901", "1e-300", "-0", "0.12345678901234567"])
def test_such_numbers_beside_texts_are_kept(number: str) -> None:
    text = json.dumps([str(uuid.UUID(int=n)) for n in range(200)])
    kept = exact_json.loads(f'{{"a": {text}, "b": {number}}}'.encode())
    assert orjson.dumps(kept["b"]) in (
        number.encode(),
        json.dumps(float(number)).encode(),
    )
