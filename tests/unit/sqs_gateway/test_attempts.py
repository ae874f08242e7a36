"""What is kept of answers that may be asked for again, and for how long."""

from __future__ import annotations

from sqs_gateway.calls import attempts
from sqs_gateway.calls.attempts import Attempts


def answer(size: int) -> attempts.Answer:
    return {"Messages": [{"Body": "x" * size}]}


def test_an_answer_is_kept_for_five_minutes_for_its_caller_and_queue() -> None:
    now = [0.0]
    kept = Attempts(lambda: now[0])
    kept.keep("key", "q", "a", answer(1), ["r"])
    now[0] = attempts.KEPT_S - 1
    found = kept.find("key", "q", "a")
    assert found is not None
    assert list(found.receipts) == ["r"]
    assert kept.find("key", "other", "a") is None
    assert kept.find("another", "q", "a") is None
    assert kept.find(None, "q", "a") is None
    now[0] += 1
    assert kept.find("key", "q", "a") is None


def test_the_oldest_give_way_to_large_ones() -> None:
    kept = Attempts(lambda: 0.0)
    for number in range(40):
        kept.keep("key", "q", str(number), answer(1 << 20), [])
    there = [number for number in range(40) if kept.find("key", "q", str(number)) is not None]
    assert there == list(range(40 - len(there), 40))
    assert 10 < len(there) <= 16
    for _ in range(40):
        kept.keep("key", "q", "39", answer(1 << 20), [])
    assert kept.find("key", "q", "38") is not None, "the same again takes no more"
