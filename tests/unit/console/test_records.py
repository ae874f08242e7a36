"""A record is readable whatever is in it, and the same view elsewhere means the same."""

from __future__ import annotations

import base64
import shlex
from typing import Any

import pytest

from console.rules import copies
from console.rules.masks import HIDDEN, Masks
from console.rules.records import MOST_CHARS, fits, part_of, shown
from queue_rules.predicates.parsing import parse


def raw(**fields: Any) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1_700_000_000_000_000} | fields


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ({"a": "Łódź"}, "json", '{\n  "a": "Łódź"\n}'),
        ('{"a": 1}', "json", '{\n  "a": 1\n}'),
        ("{no json", "text", "{no json"),
        (b"plain", "text", "plain"),
        (None, "none", ""),
        (12345678901234567890123, "json", "12345678901234567890123"),
        (HIDDEN, "hidden", HIDDEN),
    ],
)
def test_a_value_is_shown_as_what_it_is(value: Any, kind: str, text: str) -> None:
    part = part_of(value)
    assert (part.kind, part.text) == (kind, text)


def test_bytes_are_shown_with_their_places_and_what_is_long_is_cut() -> None:
    binary = part_of(b"\x00\xffab" * 400)
    assert binary.text.splitlines()[0] == (
        "0000  00 ff 61 62 00 ff 61 62 00 ff 61 62 00 ff 61 62  ··ab··ab··ab··ab"
    )
    assert binary.note == "the first 512 bytes of 1.6 KiB"
    long = part_of("x" * 30_000)
    assert len(long.text) == MOST_CHARS
    assert "30,000 characters" in long.note


def test_tombstones_and_what_cannot_be_read_are_told_apart() -> None:
    gone, _ = shown(raw(key="k", value=None), Masks())
    assert gone.tombstone
    broken, _ = shown(raw(undecodable="no UTF-8"), Masks())
    assert (broken.tombstone, broken.undecodable) == (False, "no UTF-8")


def test_what_a_rule_hides_cannot_be_searched_for() -> None:
    record = raw(key="me", value={"card": {"number": "4111"}, "city": "Oslo"})
    open_, hidden = Masks(), Masks(["t:card.number"])
    for condition, text in (("json_value(value, '$.card.number') = '4111'", ""), ("", "4111")):
        wanted = parse(condition) if condition else None
        assert fits(*shown(record, open_), text, wanted)
        assert not fits(*shown(record, hidden), text, wanted)
    assert fits(*shown(record, hidden), "oslo", parse("key = 'me'"))


def test_headers_are_shown_and_searched() -> None:
    headers = [
        {"key": "trace", "value": "abc"},
        {"key": "raw", "value_base64": base64.b64encode(b"\x00\xff").decode()},
        {"key": "none", "value": None},
    ]
    record, plain = shown(raw(value="v", headers=headers), Masks())
    assert [part.kind for _, part in record.headers] == ["text", "binary", "none"]
    assert fits(record, plain, "trace ABC", parse("headers['trace'] = 'abc'"))


def test_nothing_in_a_name_ends_a_text_or_a_name_in_sql() -> None:
    sql = copies.sql_of_records("/data/it`s", "id' OR 1=1 --\\", 1, newest=True, key="a'b\\")
    assert "delta.`/data/it``s/log`" in sql
    assert r"topic_id = 'id\' OR 1=1 --\\'" in sql
    assert r"encode('a\'b\\', 'UTF-8')" in sql


def test_a_call_for_a_shell_has_no_key_and_is_one_argument() -> None:
    call = copies.curl_of(
        "http://h", "/v1/topics/t/records", {"key": "a b';x", "at": ""}, locked=True
    )
    assert '"Authorization: Bearer $LAKEQUEUE_API_KEY"' in call
    assert shlex.split(call)[-1] == "http://h/v1/topics/t/records?key=a+b%27%3Bx"
    assert "Authorization" not in copies.curl_of("http://h", "/", {}, locked=False)


def test_python_that_is_copied_parses() -> None:
    for text in (
        copies.python_of_records("o'rders", {"partition": 0, "key": "a'\n"}),
        copies.python_of_record("orders", 0, 7),
    ):
        compile(text, "copied", "exec")
