"""The small rules of queue groups: policies, turns, receipts, requests, dead letters."""

from __future__ import annotations

import threading
from typing import Any

import orjson
import pytest

from consumer_service.queues.dead_letters import requests_of
from consumer_service.queues.waiters import Waiters
from lakequeue.errors import InvalidRequest
from lakequeue.records import Format, TopicId
from lakequeue.wire import (
    MAX_HEADERS,
    AckRequest,
    QueueReceipt,
    RefusedReceipt,
    group_checksum,
    key_value_from_json,
    parse_queue_receipt,
)
from lakequeue.wire.calls.retries import DEFAULT_MAX_ATTEMPTS
from queue_rules.groups.join_rules import is_of_queue_group
from queue_rules.queues.attempts import Attempt
from queue_rules.queues.dead_records import as_bytes, dead_letter_of
from queue_rules.queues.fair_share import fair_share
from queue_rules.queues.receipt_actions import explain, receipt_actions_of
from queue_rules.queues.retry_policy import policy_of
from queue_tables.schema.topic_rules import Topic

RECEIPT = QueueReceipt("t1", 3, 42, 0, 2, group_checksum("g"))


def a_topic(**fields: Any) -> Topic:
    return Topic.model_validate(
        {"topic": "orders", "topic_id": TopicId("t1"), "version": 0} | fields
    )


def test_the_topics_policy_goes_before_the_groups_and_that_before_the_defaults() -> None:
    assert policy_of({}, a_topic()).max_attempts == DEFAULT_MAX_ATTEMPTS
    assert policy_of({"max_attempts": 3}, a_topic()).max_attempts == 3
    assert policy_of({"max_attempts": 3}, a_topic(max_attempts=7)).max_attempts == 7
    assert policy_of({"backoff_ms": 9}, a_topic(backoff_ms=0)).backoff_ms == 0
    assert policy_of({"ordering": "key"}, None).key_order
    assert policy_of({}, a_topic(on_expired="dead_letter")).dead_letter_expired


def test_a_receipt_reads_back_and_damage_is_refused() -> None:
    assert parse_queue_receipt(str(RECEIPT)) == RECEIPT
    for bad in ("", "q", "t1.3.42.0.2", str(RECEIPT)[:-1] + "x", f"{RECEIPT}.1", "q.t.1.2.3.4.-5"):
        with pytest.raises(InvalidRequest, match="receipt"):
            parse_queue_receipt(bad)


def test_what_a_request_says_of_a_receipt_it_says_once() -> None:
    text = str(RECEIPT)
    assert len(receipt_actions_of(AckRequest(acks=[text, text]))) == 1
    with pytest.raises(InvalidRequest, match="is in acks and in nacks"):
        receipt_actions_of(AckRequest(acks=[text], nacks=[{"receipt": text}]))
    with pytest.raises(InvalidRequest, match="stream group"):
        receipt_actions_of(AckRequest(commit=[{"topic": "t", "partition": 0, "offset": 1}]))
    assert is_of_queue_group(AckRequest(extend=[{"receipt": text, "visibility_timeout_ms": 1}]))
    assert not is_of_queue_group(AckRequest(acks=["t1.3.42.7.1"]))


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("superseded", "attempt 2 at orders/3@42 presented, 5 current"),
        ("timed_out", "its deadline was 77"),
        ("settled", "settled or given back"),
        ("unknown", "never delivered; 5 is the newest"),
        ("other_group", "another group"),
        ("elsewhere", "http://b:1"),
    ],
)
def test_a_refusal_says_both_numbers(why: Any, said: str) -> None:
    refused = RefusedReceipt(
        receipt=str(RECEIPT),
        topic="orders",
        partition=3,
        offset=42,
        why=why,
        attempt=2,
        current_attempt=5,
        deadline=77,
        location="http://b:1",
    )
    assert said in explain(refused)


def test_who_has_waited_longest_is_woken_first_and_only_that_one() -> None:
    waiters = Waiters()
    first, second = threading.Event(), threading.Event()
    waiters.enter("g", first)
    waiters.enter("g", second)
    waiters.enter("g", first)  # looked again: keeps its place
    assert waiters.news("g")
    assert (first.is_set(), second.is_set()) == (True, False)
    assert not waiters.news("other")
    waiters.enter("g", first)
    assert waiters.news("g")
    assert second.is_set()


def test_news_that_a_poll_does_not_use_is_for_the_next() -> None:
    waiters = Waiters()
    ended, other = threading.Event(), threading.Event()
    with waiters.asking("g", ended):
        assert waiters.count("g") == 1
        waiters.enter("g", ended)
        waiters.enter("g", other)
        waiters.news("g")
    assert other.is_set()
    assert waiters.count("g") == 0


def a_row(headers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "key": "k",
        "value_base64": "/w==",
        "headers": headers,
        "timestamp": 5,
    }


def test_a_dead_letter_is_the_record_and_where_it_died() -> None:
    one = Attempt(42, 4, 2_000_000, 1_000_000, reason="max_attempts")
    old = [{"key": "a", "value": "1"}, {"key": "lakequeue-reason", "value": "of an older death"}]
    letter = dead_letter_of(a_row(old), "t1", "g", one)
    assert letter["message_id"] == "dead:g:t1:3:42"
    again = dead_letter_of(a_row(old), "t1", "g", one, generation=2)
    assert again["message_id"] == "dead:g:t1:3:42:2", "after a seek it may die once more"
    assert (letter["key"], letter["value_base64"]) == ("k", "/w==")
    assert letter["timestamp"] == "1970-01-01T00:00:00.000005+00:00"
    said = [(h["key"], h["value"]) for h in letter["headers"]]
    assert said == [
        ("a", "1"),
        ("lakequeue-group", "g"),
        ("lakequeue-topic", "orders"),
        ("lakequeue-partition", "3"),
        ("lakequeue-offset", "42"),
        ("lakequeue-attempts", "4"),
        ("lakequeue-reason", "max_attempts"),
        ("lakequeue-first-delivered-at", "1970-01-01T00:00:01+00:00"),
        ("lakequeue-dead-at", "1970-01-01T00:00:02+00:00"),
    ]


def test_a_dead_letter_names_the_record_that_died_first_unless_its_id_is_long() -> None:
    one = Attempt(42, 4, 2_000_000, 1_000_000, reason="max_attempts")

    def told(headers: list[dict[str, Any]], message_id: str | None) -> str | None:
        letter = dead_letter_of(a_row(headers) | {"message_id": message_id}, "t1", "g", one)
        return {h["key"]: h["value"] for h in letter["headers"]}.get("lakequeue-message-id")

    assert told([], "m-1") == "m-1"
    assert told([], None) is None
    assert told([{"key": "lakequeue-message-id", "value": "m-1"}], "dead:g:t0:0:7") == "m-1"
    assert told([], "é" * 256) == "é" * 256
    assert told([], "é" * 257) is None, "a record of the largest size would have no room for it"


def test_a_dead_letter_of_what_no_record_may_be_is_one_that_a_topic_takes() -> None:
    row = a_row([]) | {"timestamp": 884_541_340_800_000_000, "undecodable": "KeyError: 'x'"}
    letter = dead_letter_of(row, "t1", "g", Attempt(42, 1, 1 << 62, 1, reason="undecodable"))
    said = {h["key"]: h["value"] for h in letter["headers"]}
    assert letter["timestamp"] is None
    assert said["lakequeue-timestamp"] == "884541340800000000"
    assert said["lakequeue-undecodable"] == "KeyError: 'x'"
    assert said["lakequeue-dead-at"] == f"{1 << 62} µs"


def test_a_dead_letter_as_bytes_holds_the_same_bytes() -> None:
    value = orjson.Fragment(b'{"a": 1}')
    row = a_row([]) | {"key": "k", "value": value}
    del row["value_base64"]
    letter = as_bytes(dead_letter_of(row, "t1", "g", Attempt(42, 1, 0, 0)))
    assert key_value_from_json("key", letter) == (b"k", Format.BYTES)
    assert key_value_from_json("value", letter) == (b'{"a": 1}', Format.BYTES)
    raw = as_bytes(letter)
    assert raw["value_base64"] == letter["value_base64"]
    assert as_bytes(letter | {"key": None})["key"] is None


def test_headers_for_which_there_is_no_room_are_kept_in_one() -> None:
    many = [{"key": f"h{n}", "value": "v"} for n in range(MAX_HEADERS)]
    letter = dead_letter_of(a_row(many), "t1", "g", Attempt(42, 1, 0, 0))
    assert len(letter["headers"]) == MAX_HEADERS
    more = {h["key"]: h["value"] for h in letter["headers"]}["lakequeue-more-headers"]
    assert f'"h{MAX_HEADERS - 1}"' in more


def test_dead_letters_are_sent_in_requests_that_ingest_nodes_take() -> None:
    records = [{"value": "x" * size} for size in (10, 10, 500, 10, 10)]
    parts = list(requests_of(records, 100))
    assert parts == [records[:2], records[2:3], records[3:]]
    assert list(requests_of([], 100)) == []


def test_eight_records_are_shared_by_four_workers_that_ask_however_they_come() -> None:
    for arrivals in ([8], [1] * 8, [3, 5], [5, 1, 2]):
        has = [0, 0, 0, 0]
        available = 0
        for arrived in arrivals:
            available += arrived
            turn = 0
            while available:
                others = sum(has) - has[turn]
                took = min(available, max(0, fair_share(available, has[turn], others, 4)))
                has[turn] += took
                available -= took
                turn = (turn + 1) % 4
        assert has == [2, 2, 2, 2], arrivals


def test_a_worker_that_asks_alone_may_have_all() -> None:
    assert fair_share(8, 0, 0, 1) == 8
    assert fair_share(8, 5, 0, 1) == 8
