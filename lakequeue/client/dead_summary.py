"""Which dead letters wait in a topic: how many, from where, why, and since when."""

from __future__ import annotations

from collections.abc import Iterable

from lakequeue.client.admin import Admin
from lakequeue.client.dead_records import between, ends_of, positions_of
from lakequeue.client.record import Record
from lakequeue.client.redriven import DeadLetters
from lakequeue.wire import ERASED_HEADER, DeadLetterHeader

_SAID = (DeadLetterHeader.TOPIC, DeadLetterHeader.GROUP, DeadLetterHeader.REASON)


def waiting_dead_letters(admin: Admin, topic: str) -> list[DeadLetters]:
    """Those that no redrive has sent back yet, the largest number first.

    It reads them all, a page at a time. Raises `UnknownTopic`, and what looking at records raises.
    """
    admin.topic(topic)
    at = positions_of(admin, topic)
    return summed(
        record
        for partition, end in sorted(ends_of(admin, topic).items())
        for record in between(admin, topic, partition, at.get(partition, 0), end)
    )


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
            line = DeadLetters(record.topic, origin, group, reason, 0, at, at)
            found[origin, group, reason] = line
        line.count += 1
        line.oldest = min(line.oldest, record.timestamp)
        line.newest = max(line.newest, record.timestamp)
    return sorted(found.values(), key=lambda line: (-line.count, line.origin, line.group))
