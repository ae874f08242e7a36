"""Records that go to the dead letters of their topic, within their request."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.commit.inbox_table import to_table
from lakequeue.errors import TooLarge
from lakequeue.partitioner import PARTITIONERS
from queue_rules.produce.answers import answer_of, minimal_answer_of
from queue_rules.produce.dead_values import Parted, letter_headers, letter_id, parted
from queue_rules.produce.rows import NO_PARTITION, Request
from queue_rules.produce.validation import Limits, columns_of
from queue_tables.schema.topic_rules import Topic, checked_config
from queue_tables.schema.values.rules import values_of

INTEGERS = values_of('{"type": "integer"}')
LIMITS = Limits(1, "crc32", 1_000, 100, INTEGERS, "dead_letter")
OF_LETTERS = Limits(7, "crc32", 100, 100)


def topic(name: str) -> Topic:
    config = checked_config(name, {"value_schema": '{"type": "integer"}'})
    return Topic(topic=name, topic_id=f"id-{name}", version=0, **config)


def request(*values: Any, first: int | None = None, **more: Any) -> Request:
    records = [{"value": value, "key": f"k{i}"} | more for i, value in enumerate(values)]
    prefix = None if first is None else "p"
    rows = columns_of(records, LIMITS, message_id_prefix=prefix, first_sequence=first or 0)
    return Request("id-a", rows, producer_id=prefix, producer_epoch=3, sequence=first, atomic=True)


def part(*parts: Request, numbers: list[int] | None = None) -> Parted:
    topics = [topic("a"), topic("b")][: len(parts)]
    known = numbers or list(range(sum(len(one.rows) for one in parts)))
    return parted(parts, topics, known, 0, lambda t: topic(t.dead_letters), lambda _: OF_LETTERS)


def test_what_is_dead_becomes_a_part_of_its_own_and_the_answer_says_so_in_its_place() -> None:
    found = part(request(1, "x", 3, "y", first=40))
    kept, dead = found.parts
    assert [one.topic for one in found.topics] == ["a", "a.dlq"]
    assert found.numbers == [0, 2, 1, 3]
    assert (kept.rows.values, dead.rows.values) == ([b"1", b"3"], [b"x", b"y"])
    assert (dead.topic_id, dead.producer_epoch, dead.atomic) == ("id-a.dlq", 3, True)
    assert dead.rows.partitions == [PARTITIONERS["crc32"](key, 7) for key in (b"k1", b"k3")]
    assert (kept.rows.faulty, dead.rows.faulty) == (0, 2)
    assert minimal_answer_of(found.parts, 9) is None
    answer = answer_of(found.parts, found.numbers, 9, None)["records"]
    assert [one.get("dead_letter_topic") for one in answer] == [None, "a.dlq", None, "a.dlq"]
    assert [one["message_id"] for one in answer[::2]] == ["p:40", "p:42"]
    assert [one["partition"] for one in answer[1::2]] == dead.rows.partitions


def test_what_is_kept_keeps_its_numbers_and_letters_have_none() -> None:
    found = part(request("x", 2, "y", 4, first=40))
    table = to_table(found.parts)
    assert table["sequence"].to_pylist() == [41, 43, None, None]
    assert [one.next_sequence for one in found.parts] == [44, None]


def test_a_request_without_faults_stays_as_it_is_and_one_of_faults_alone_has_one_part() -> None:
    whole = request(1, 2)
    assert part(whole).parts == [whole]
    [dead] = part(request("x", "y")).parts
    assert (dead.topic_id, dead.rows.values) == ("id-a.dlq", [b"x", b"y"])


def test_of_several_topics_each_has_its_letters_and_numbers_follow() -> None:
    found = part(request(1, "x"), request("y", 2), numbers=[3, 0, 2, 1])
    assert [one.topic for one in found.topics] == ["a", "b", "a.dlq", "b.dlq"]
    assert found.numbers == [3, 1, 0, 2]
    assert [one.rows.values for one in found.parts] == [[b"1"], [b"2"], [b"x"], [b"y"]]


def test_a_record_without_a_key_is_spread_and_its_delay_is_gone() -> None:
    found = part(request("x", 2, key=None, delay_ms=60_000, headers={"a": "b"}))
    kept, dead = found.parts
    assert dead.rows.partitions == [NO_PARTITION]
    assert (dead.rows.timings, kept.rows.timings is None) == (None, False)
    assert dead.rows.headers is not None
    said = dict(dead.rows.headers[0])
    assert said["a"] == b"b"
    assert said["lakequeue-topic"] == b"a"
    assert "lakequeue-partition" not in said
    assert said["lakequeue-dead-at"] == b"1970-01-01T00:00:00+00:00"


def test_a_record_that_is_too_large_for_the_letters_is_refused_and_named() -> None:
    with pytest.raises(TooLarge, match="record 1: a record of 202 bytes, at most 100"):
        part(request(1, "x" * 200))


def test_many_headers_stay_within_what_a_record_may_have() -> None:
    own: list[tuple[str, bytes | None]] = [(f"h{i}", b"v") for i in range(64)]
    said = letter_headers([*own, ("lakequeue-reason", b"old")], "a", 5, "why" * 400, 0)
    assert len(said) == 64
    assert dict(said)["lakequeue-reason"] == b"wrong_value"
    assert dict(said)["lakequeue-partition"] == b"5"
    assert len(dict(said)["lakequeue-value-fault"] or b"") == 500
    assert (dict(said)["lakequeue-more-headers"] or b"").count(b'"key"') == 8


def test_a_letter_has_the_id_of_its_record_its_topic_and_its_value() -> None:
    assert letter_id("t", None, b"x") is None
    ids = {letter_id(t, m, v) for t in "ab" for m in ("1", "2") for v in (b"x", b"y", None)}
    assert len(ids) == 12
    assert letter_id("a", "1", b"x") in ids
