"""Which dead letters wait in a topic: how many, from where, why, and since when."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime

from lakequeue.client.admin import Admin
from lakequeue.client.dead_records import between, ends_of, positions_of
from lakequeue.client.record import Record
from lakequeue.client.redriven import DeadLetters
from lakequeue.errors import InvalidRequest, UnknownTopic
from lakequeue.times import to_micros
from lakequeue.wire import ERASED_HEADER, DeadLetterHeader, default_dead_letters

_SAID = (DeadLetterHeader.TOPIC, DeadLetterHeader.GROUP, DeadLetterHeader.REASON)


def waiting_dead_letters(admin: Admin, topic: str) -> list[DeadLetters]:
    """Those that no redrive has sent back yet, the largest number first.

    It reads them all, a page at a time. None wait in a topic that is made when the first record
    dies. Raises `UnknownTopic` if no topic has its dead letters there either, and what looking
    at records raises.
    """
    if not _exists(admin, topic):
        return []
    at = positions_of(admin, topic)
    return summed(
        record
        for partition, end in sorted(ends_of(admin, topic).items())
        for record in between(admin, topic, partition, at.get(partition, 0), end)
    )


def _exists(admin: Admin, topic: str) -> bool:
    try:
        admin.topic(topic)
    except UnknownTopic as error:
        topics = admin.topics()
        if topic in {t.dead_letter_topic or default_dead_letters(t.topic) for t in topics}:
            return False
        raise UnknownTopic(
            error.detail,
            hint="no topic has its dead letters there; a dead-letter topic is made when the first "
            "record dies",
        ) from error
    return True


def summed(records: Iterable[Record]) -> list[DeadLetters]:
    """One line for each origin, group and reason. Pure."""
    found: dict[tuple[str, str, str], DeadLetters] = {}
    for record in records:
        headers = {} if record.undecodable is not None else dict(record.headers)
        if ERASED_HEADER in headers:
            continue
        origin, group, reason = (
            (headers.get(name) or (b"-" if name == DeadLetterHeader.GROUP else b"?")).decode(
                errors="replace"
            )
            for name in _SAID
        )
        line = found.get((origin, group, reason))
        if line is None:
            at = record.timestamp
            died = died_at(record)
            line = DeadLetters(record.topic, origin, group, reason, 0, at, at, died, died)
            found[origin, group, reason] = line
        line.count += 1
        line.oldest = min(line.oldest, record.timestamp)
        line.newest = max(line.newest, record.timestamp)
        died = died_at(record)
        line.first_died = min(line.first_died, died)
        if died >= line.last_died:
            line.last_died = died
            said = headers.get(DeadLetterHeader.NACK_REASON) or b""
            line.nack_reason = said.decode(errors="replace")
    return sorted(found.values(), key=lambda line: (-line.count, line.origin, line.group))


def died_at(record: Record) -> int:
    """When it was given up; its own time if it does not say so, or not as a time. Pure."""
    if record.undecodable is None:
        said = dict(record.headers).get(DeadLetterHeader.LAST_AT) or b""
        with contextlib.suppress(ValueError, OverflowError, InvalidRequest):
            return to_micros(datetime.fromisoformat(said.decode()))
    return record.timestamp
