"""The body of a produce answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queue_rules.produce.outcomes import Outcome
from queue_rules.produce.rows import Request


def answer_of(
    parts: Sequence[Request], numbers: Sequence[int], stamp: int, outcomes: list[Outcome] | None
) -> dict[str, Any]:
    """The body of a produce answer (`wire.ProduceAnswer`), as plain values: it may be long."""
    if parts[0].bare:
        return {"records": [], "stamp": stamp}
    ids = [m for part in parts for m in part.rows.message_ids]
    if outcomes is None:
        partitions = [p for part in parts for p in part.rows.partitions]
        records: list[dict[str, Any]] = [
            {"partition": p, "message_id": m} for p, m in zip(partitions, ids, strict=True)
        ]
    else:
        records = [_ordered(o, m) for o, m in zip(outcomes, ids, strict=True)]
    first = 0
    for part in parts:
        if part.dead_letter_topic is not None:
            for i in range(first, first + len(part.rows)):
                records[i]["dead_letter_topic"] = part.dead_letter_topic
        first += len(part.rows)
    if len(parts) > 1:
        by_number = dict(zip(numbers, records, strict=True))
        records = [by_number[number] for number in range(len(records))]
    return {"records": records, "stamp": stamp}


def minimal_answer_of(parts: Sequence[Request], stamp: int) -> dict[str, Any] | None:
    """`wire.MinimalProduceAnswer` of records that are committed; None: there is more to say."""
    (part, *others) = parts
    if others or part.bare or part.dead_letter_topic is not None:
        return None
    return {"partitions": part.rows.partitions, "stamp": stamp}


def new_records(
    parts: Sequence[Request], numbers: Sequence[int], answer: Mapping[str, Any]
) -> list[int]:
    """How many records of each part have got an offset by this request, as its answer says.

    Copies of records that were ordered before do not count.
    """
    records, at, found = answer["records"], iter(numbers), []
    for part in parts:
        mine = [] if part.bare else [records[next(at)] for _ in range(len(part.rows))]
        found.append(sum("offset" in one and not one.get("duplicate") for one in mine))
    return found


def _ordered(outcome: Outcome, message_id: str | None) -> dict[str, Any]:
    record: dict[str, Any] = {"partition": outcome.partition, "message_id": message_id}
    if outcome.reason is not None:
        return record | {"reason": outcome.reason}
    record["offset"] = outcome.offset
    return record | {"duplicate": True} if outcome.duplicate else record
