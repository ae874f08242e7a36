"""What a redrive finds in a dead-letter topic: which records it takes, and where they go back to.

A redrive that chose nothing, or chose a topic that is none of dead letters, would only copy what
stands there. So it looks before it takes: up to which record anything is chosen, in each partition,
and whether these are dead letters at all.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import orjson

from lakequeue.calling.addresses import Urls
from lakequeue.client.admin import Admin
from lakequeue.client.record import Record
from lakequeue.client.redriven import Redriven, Wanted
from lakequeue.errors import InvalidRequest, UnknownGroup
from lakequeue.records import checked_name
from lakequeue.wire import (
    DEAD_LETTER_HEADERS,
    ERASED_HEADER,
    DeadLetterHeader,
    TopicDescription,
    default_dead_letters,
    headers_from_json,
    redrive_group,
)

_PAGE = 1_000


def own_headers(
    headers: Sequence[tuple[str, bytes | None]],
) -> list[tuple[str, bytes | None]]:
    """The headers that the record had before it died. Pure."""
    own = [(name, value) for name, value in headers if name not in DEAD_LETTER_HEADERS]
    more = dict(headers).get(DeadLetterHeader.MORE)
    if more is None:
        return own
    try:
        return own + headers_from_json(orjson.loads(more))
    except (orjson.JSONDecodeError, InvalidRequest):
        # Somebody else's header of that name: the record goes back without it.
        return own


def group_of(topic: str) -> str:
    """The group that consumes a dead-letter topic for its redrive."""
    return redrive_group(topic)


def look_through(
    topic: str,
    *,
    urls: Urls | None = None,
    consumer_urls: Urls | None = None,
    wanted: Wanted | None = None,
    to: str | None = None,
) -> Redriven:
    """What `redrive` would do now; nothing is sent, and no group joined.

    Raises `UnknownTopic`, `InvalidRequest` for a topic that is none of dead letters, and what
    looking at records raises.
    """
    with Admin(urls, consumer_urls) as admin:
        return look_through_as(admin, topic, wanted or Wanted(), to)


def look_through_as(admin: Admin, topic: str, wanted: Wanted, to: str | None = None) -> Redriven:
    """The same with the credentials of that client."""
    admin.topic(checked_name(topic, "topic"))
    at = positions_of(admin, topic)
    homes = Homes(admin, topic, to)
    # What comes meanwhile is for the next one, as in a redrive.
    ends = ends_of(admin, topic)
    check_dead_letters(admin, topic, at, ends)
    seen = Redriven()
    for partition, end in ends.items():
        for record in between(admin, topic, partition, at.get(partition, 0), end):
            seen += fate_of(record, wanted, homes)
    return seen


def ends_of(admin: Admin, topic: str, shift: int = 0) -> dict[int, int]:
    """Partition → where it ends now; with a `shift` so far from there, within the log."""
    # Asked for a group that does not exist: ours may have members.
    look = admin.seek(
        f"look-{uuid.uuid4().hex}", "latest", shift=shift, topics=[topic], dry_run=True
    )
    return {move.partition: move.to_offset for move in look.partitions}


def check_dead_letters(
    admin: Admin, topic: str, at: Mapping[int, int], ends: Mapping[int, int], *, begins: bool = True
) -> None:
    """Raise `InvalidRequest` unless `topic` is one of dead letters.

    It is if another topic names it. Otherwise (that one may be deleted, or name another since) each
    record must be a dead letter: one that is none would be copied behind itself. Of a redrive that
    only goes on, nothing may be left.
    """
    if topic in dead_letter_topics(admin.topics()):
        return
    found = 0
    for partition, end in ends.items():
        for record in between(admin, topic, partition, at.get(partition, 0), end):
            if record.undecodable is not None:
                continue  # what it was is not known
            names = [name for name, _ in record.headers]
            if DeadLetterHeader.TOPIC not in names and names != [ERASED_HEADER]:
                raise _no_dead_letters(topic, f"{topic}/{partition}@{record.offset} is none")
            found += 1
    if begins and not found and not topic.endswith(".dlq"):
        raise _no_dead_letters(topic, "there are none in it")


def _no_dead_letters(topic: str, why: str) -> InvalidRequest:
    return InvalidRequest(
        f"topic {topic!r} is not a dead-letter topic: no topic names it, and {why}",
        hint=f"redrive the topic its dead letters go to: {topic}.dlq, or its dead_letter_topic",
        field="topic",
    )


def chosen_ends(
    admin: Admin,
    topic: str,
    at: Mapping[int, int],
    ends: Mapping[int, int],
    takes: Callable[[Record], Redriven],
    until_s: float | None = None,
) -> tuple[dict[int, int], Redriven]:
    """Per partition one past the last record between `at` and `ends` that is chosen, `at` if none
    is; and what stands behind these, which stays as it is.

    Looks from the end, so that it reads one page where all are chosen. At `until_s` (monotonic) it
    gives up: what it has not looked at may be chosen.
    """
    chosen = dict(ends)
    left = Redriven()
    for partition, end in ends.items():
        first = at.get(partition, 0)
        chosen[partition] = min(first, end)
        while end > first:
            if until_s is not None and time.monotonic() >= until_s:
                chosen[partition] = end
                break
            begin = max(first, end - _PAGE)
            last, behind = begin - 1, Redriven()
            for record in between(admin, topic, partition, begin, end):
                fate = takes(record)
                last, behind = (
                    (record.offset, Redriven()) if fate.redriven else (last, behind + fate)
                )
            left += behind
            if last >= begin:
                chosen[partition] = last + 1
                break
            end = begin
    return chosen, left


def between(admin: Admin, topic: str, partition: int, begin: int, end: int) -> Iterator[Record]:
    """The records from `begin` on that are before `end`, as far as they exist."""
    while begin < end:
        page = admin.browse(topic, partition, offset=begin, max_records=min(_PAGE, end - begin))
        yield from (record for record in page.records if record.offset < end)
        if page.next_offset <= begin:
            return
        begin = page.next_offset


def dead_letter_topics(topics: Iterable[TopicDescription]) -> list[str]:
    """Which of all topics hold dead letters: named by another one, or `<topic>.dlq`. Pure."""
    described = list(topics)
    names = {t.dead_letter_topic or default_dead_letters(t.topic) for t in described}
    return sorted(t.topic for t in described if t.topic in names)


def fate_of(record: Record, wanted: Wanted, homes: Homes) -> Redriven:
    """What becomes of one dead record; nothing of one that was erased. Pure, given `homes`."""
    if record.undecodable is not None:
        return Redriven(without_topic=1)
    headers = record.headers
    if [name for name, _ in headers] == [ERASED_HEADER]:
        # Put behind the others it would be a new record each time, and stay for good.
        return Redriven()
    if not wanted.takes(headers, record.timestamp):
        return Redriven(kept=1)
    return Redriven(without_topic=1) if homes.of(headers) is None else Redriven(redriven=1)


class Homes:
    """Where dead records go: to where they came from, as far as that still exists; or all to `to`.

    What they came from stands in their headers, which anybody has written who may send to the
    topic: so whoever acts for others says where those may send (`may_send`).

    Raises `UnknownTopic` for a `to` that is not there, `InvalidRequest` for the topic itself.
    """

    def __init__(
        self,
        admin: Admin,
        topic: str,
        to: str | None = None,
        may_send: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._to = to
        if to == topic:
            raise InvalidRequest(
                f"dead records of {topic!r} would go behind themselves",
                hint="name another topic, or none: then they go back to where they died",
                field="to",
            )
        if to is not None:
            admin.topic(checked_name(to, "to"))
        self._partitions: dict[str, int] = {
            t.topic: t.partitions for t in admin.topics() if t.topic != topic and may_send(t.topic)
        }

    def of(self, headers: Sequence[tuple[str, bytes | None]]) -> tuple[str, int | None] | None:
        """(topic, partition) that a dead record goes back to; partition None: by its key."""
        if self._to is not None:
            return self._to, None
        said = dict(headers)
        topic = (said.get(DeadLetterHeader.TOPIC) or b"").decode(errors="replace")
        count = self._partitions.get(topic)
        if count is None:
            return None
        text = (said.get(DeadLetterHeader.PARTITION) or b"").decode(errors="replace")
        known = text.isascii() and text.isdigit() and int(text) < count
        return topic, int(text) if known else None


def positions_of(admin: Admin, topic: str) -> dict[int, int]:
    """How far the redrives of a topic have come, in each partition; {} before the first one."""
    try:
        described = admin.group(group_of(topic))
    except UnknownGroup:
        return {}
    return {p.partition: p.committed_offset or 0 for p in described.partitions}
