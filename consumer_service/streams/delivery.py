"""What a poll does: gather records from the member's partitions, or wait until there are some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from consumer_service.members import Member
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.polls.matching import find_matching
from consumer_service.polls.waiting import begin, turn_of, wait_for_records, woken
from consumer_service.reading.columns import Form, InColumns, Part
from consumer_service.reading.encode import delivered as delivered_records
from consumer_service.reading.encode import records_of, unreadable_among
from consumer_service.reading.runs import not_expired, prefix_within
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import OnUndecodable, ignore
from consumer_service.streams.poll_result import StreamPollResult
from consumer_service.streams.readiness import Readiness
from consumer_service.streams.shares import COLUMNS_FROM, Share, in_turn, is_much, share_of
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import OffsetOutOfRange, UndecodableRecord
from lakequeue.wire import UNDECODABLE
from queue_rules.predicates.expressions import Condition
from queue_rules.predicates.of_group import predicate_in
from queue_rules.queues.undecodable_policy import policy_in
from queue_tables.log.record_bytes import bytes_of
from serving.front.parking import BLOCKS, Steps


@dataclass(slots=True, frozen=True)
class _Taken:
    """What one partition gives to an answer."""

    records: list[dict[str, Any]] | Part
    bytes: int
    epoch: int
    before: int
    """Where its cursor stood."""


class Delivery:
    """Serves polls; thread-safe."""

    def __init__(
        self,
        tailer: Tailer,
        owned_partitions: OwnedPartitions,
        max_poll_bytes: int,
        on_passed: Callable[[OwnedPartition], None],
        on_undecodable: OnUndecodable = ignore,
    ) -> None:
        self._tailer = tailer
        self._readiness = Readiness(tailer, owned_partitions)
        self._max_poll_bytes = max_poll_bytes
        self._on_passed = on_passed
        """Called when offsets were skipped: expired, a gap, or not what a predicate takes."""
        self._on_undecodable = on_undecodable

    def steps(
        self,
        member: Member,
        max_records: int,
        wait_s: float,
        gone: Callable[[], bool],
        after: int | None = None,
        *,
        form: Form | None = None,
    ) -> Steps[StreamPollResult]:
        """Up to `max_records` records; waits at most `wait_s` seconds for the first.

        `gone` tells whether the client has hung up: then nothing is delivered. `after` numbers the
        last answer that the client got, see `Polls`. `form`: that of many records; None: as few.
        """
        number = yield from begin(member, after)
        look = partial(self._look, member, max_records, number, form)
        with woken(member) as wake:
            found = yield from wait_for_records(member, wake, wait_s, gone, wake.clear, look)
        return found or StreamPollResult()

    def _look(
        self, member: Member, max_records: int, number: int, form: Form | None
    ) -> Steps[StreamPollResult | None]:
        """What there is now; None when a newer poll than this numbered one has begun."""
        ready = self._readiness.at_hand(member) if number else None
        if ready is None:
            yield BLOCKS
        if not number:
            return self._gather(member, max_records, form)
        yield from turn_of(member.polls.lock)
        try:
            if member.polls.begun != number:
                return None
            delivered = self._gather(member, max_records, form, ready)
            delivered.number = number
            if delivered.records:
                # Where it began is enough to take it back: its records need no memory here.
                unconfirmed = StreamPollResult(before=delivered.before, number=number)
                member.polls.answered.append((number, unconfirmed))
            return delivered
        finally:
            member.polls.lock.release()

    def _gather(
        self,
        member: Member,
        max_records: int,
        form: Form | None,
        ready: list[OwnedPartition] | None = None,
    ) -> StreamPollResult:
        """What there is; `ready`: what was ready a moment ago. Who is woken since looks again."""
        delivered = StreamPollResult()
        if ready is None:
            ready = self._readiness.ready(member)
        if not ready:
            return delivered
        member.turn += 1
        turn = member.turn % len(ready)
        ready = ready[turn:] + ready[:turn]
        try:
            if form is not None and max_records >= COLUMNS_FROM:
                waiting = [self._waiting(owned) for owned in ready]
                if is_much(waiting, form):
                    delivered.records = InColumns(form)
                    ready = [ready[number] for number in in_turn(waiting, max_records)]
            self._fill(delivered, member, ready, max_records)
        except BaseException:
            # The caller gets the error, and not what the partitions before it gave.
            delivered.take_back()
            raise
        # A look at a long history takes a while, and a pause may have answered meanwhile.
        delivered.leave_paused()
        if isinstance(delivered.records, InColumns) and delivered.records:
            self._make_columns(delivered, delivered.records, member)
        return delivered

    def _fill(
        self,
        delivered: StreamPollResult,
        member: Member,
        ready: list[OwnedPartition],
        max_records: int,
    ) -> None:
        left_bytes = self._max_poll_bytes
        stopped: UndecodableRecord | None = None
        columns = isinstance(delivered.records, InColumns)
        giving = sum(self._waiting(owned) > 0 for owned in ready) if columns else 0
        for owned in ready:
            left = max_records - len(delivered.records)
            if left <= 0 or left_bytes <= 0:
                break
            at = owned.cursor.delivered
            share = share_of(left, left_bytes, giving, columns=columns)
            giving -= columns and self._waiting(owned) > 0
            try:
                taken = self._take(owned, member, share)
            except UndecodableRecord as error:
                stopped = error  # other partitions go on
                continue
            if taken is None:
                # Passed over: a look at a long history is broken off, and goes on.
                delivered.more |= owned.cursor.delivered > at
                continue
            delivered.before.append((owned, taken.epoch, taken.before))
            delivered.add(taken.records)
            left_bytes -= taken.bytes
        if stopped is not None and not (delivered.records or delivered.more):
            raise stopped

    def _waiting(self, owned: OwnedPartition) -> int:
        """Records that are not delivered yet."""
        return max(0, self._tailer.end(owned.where) - owned.cursor.delivered)

    def _take(self, owned: OwnedPartition, member: Member, share: Share) -> _Taken | None:
        """Move the cursor over the next rows of a partition, if it may be delivered now."""
        if owned.paused or not owned.delivers:
            return None
        predicate = predicate_in(owned.options)
        taken: _Taken | None = None
        if owned.cursor.delivered < self._tailer.end(owned.where):
            with owned.fetching:
                if predicate is None and not share.columns and owned.read_ahead() is None:
                    taken = self._take_cut(owned, member, share)
                if taken is None:
                    taken = self._take_next(owned, member, share, predicate)
        if predicate is not None or (owned.cursor.passes and not member.request.gapless):
            self._on_passed(owned)
        return taken

    def _take_cut(self, owned: OwnedPartition, member: Member, share: Share) -> _Taken | None:
        """What memory has ready for all groups, with the receipts of this one."""
        epoch, position = owned.epoch, owned.cursor.delivered
        cut = self._tailer.cut(owned.where, position, share.rows, share.bytes)
        if cut is None or not self._leave(owned, member, epoch, position, cut.following):
            return None
        records = delivered_records(cut.records, owned.key.topic_id, epoch)
        return _Taken(records, cut.bytes, epoch, position)

    def _take_next(
        self,
        owned: OwnedPartition,
        member: Member,
        share: Share,
        predicate: Condition | None,
    ) -> _Taken | None:
        epoch, position = owned.epoch, owned.cursor.delivered
        try:
            rows, following = self._fetch(owned, position, share, predicate)
        except OffsetOutOfRange as expired:
            with owned.lock:
                owned.cursor.skip_to(self._resume_at(owned, member, position, expired))
            return self._take_next(owned, member, share, predicate)
        if following == position:
            return None
        alive = None if rows is None else not_expired(rows, wall_micros())
        if alive is not None and policy_in(owned.options, "stream") != "tombstone":
            alive, following = self._readable(owned, alive, following)
        among: list[int] | None = None
        if alive is not rows or rows is None or rows.num_rows != following - position:
            among = [] if alive is None else alive["offset"].to_pylist()
        if not self._leave(owned, member, epoch, position, following, among) or alive is None:
            return None
        place = (owned.topic, int(owned.key.partition))
        size = bytes_of(alive)
        if share.columns:
            return _Taken(Part(place, epoch, alive), size, epoch, position)
        return _Taken(self._read(member, records_of(alive, epoch)), size, epoch, position)

    def _read(self, member: Member, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Records that leave as JSON; those that cannot be read are told of."""
        if any(UNDECODABLE in record for record in records):
            self._on_undecodable(member.group, records)
        return records

    def _make_columns(
        self, delivered: StreamPollResult, records: InColumns, member: Member
    ) -> None:
        """If a record cannot leave in columns, all leave as JSON."""
        if not records.make():
            delivered.records = self._read(member, list(records))

    def _leave(
        self,
        owned: OwnedPartition,
        member: Member,
        epoch: int,
        position: int,
        following: int,
        among: list[int] | None = None,
    ) -> bool:
        """Move the cursor from `position` to `following`; `among`: only these offsets leave.

        It is the last look before the records leave: still owned, by this member, in time.
        """
        with owned.lock:
            if (
                not owned.delivers
                or owned.paused
                or owned.epoch != epoch
                or owned.cursor.delivered != position
                or not owned.trusted()
            ):
                return False
            if not owned.cursor.outstanding:
                member.liveness.progress(boot_seconds())
            if among is None:
                owned.cursor.deliver(position, following)
            else:
                owned.cursor.deliver_among(among, following)
        return True

    def _readable(
        self, owned: OwnedPartition, rows: pa.Table, following: int
    ) -> tuple[pa.Table | None, int]:
        """The rows without those that cannot be read, or up to the first of these; where to go on.

        Raises `UndecodableRecord` where the group stops at one and it is the first.
        """
        bad = unreadable_among(rows)
        if not bad:
            return rows, following
        self._on_undecodable(owned.key.group, bad)
        if policy_in(owned.options, "stream") == "stop":
            first = bad[0]["offset"]
            before = rows.filter(pc.less(rows["offset"], first))
            if before.num_rows:
                return before, first
            raise UndecodableRecord(
                f"{owned.topic}/{owned.key.partition}: the record at offset {first} cannot be read:"
                f" {bad[0][UNDECODABLE]}",
                hint="erase it (lakequeue erase), or seek the group past it; with undecodable skip"
                " or tombstone a group goes on by itself",
                topic=owned.topic,
                partition=int(owned.key.partition),
                offset=first,
            )
        offsets = pa.array([record["offset"] for record in bad], pa.int64())
        kept = rows.filter(pc.invert(pc.is_in(rows["offset"], value_set=offsets)))
        return (kept if kept.num_rows else None), following

    def _resume_at(
        self, owned: OwnedPartition, member: Member, position: int, expired: OffsetOutOfRange
    ) -> int:
        """The position has expired: where the group asked to go on then."""
        policy = member.request.on_out_of_range
        first, end = int(expired.extra["first_offset"]), int(expired.extra["end_offset"])
        if policy == "error" or position > end:
            raise OffsetOutOfRange(
                f"position {position} of partition {owned.key.partition} of {owned.topic} is "
                f"outside of what exists, {first} to {end}",
                hint="seek the group, or join with on_out_of_range earliest or latest",
                first_offset=first,
                end_offset=end,
            )
        return first if policy == "earliest" else end

    def _fetch(
        self,
        owned: OwnedPartition,
        position: int,
        share: Share,
        predicate: Condition | None,
    ) -> tuple[pa.Table | None, int]:
        """The rows at `position`: read ahead already, in memory, or from the files.

        Also the offset to go on at. None: no row, but what lies before it is passed.
        """
        rows, following = _from(owned.read_ahead(), position), 0
        if rows is None and predicate is not None:
            bad = self._on_undecodable
            found = find_matching(self._tailer, owned, position, predicate, bad)
            rows, following = found.rows, found.passed
        elif rows is None:
            end = self._tailer.end(owned.where)
            rows = self._tailer.read(
                owned.where,
                position,
                share.ahead_rows,
                share.ahead_bytes,
            )
            following = end if rows.num_rows == 0 else 0  # a gap up to the end
        if rows is None or rows.num_rows == 0:
            owned.rows = None
            return None, max(position, following)
        now = prefix_within(rows, share.rows, share.bytes)
        rest = rows.slice(now.num_rows)
        owned.rows = rest if rest.num_rows else None
        if rest.num_rows:
            # What does not match, or is not there, before the next record is passed with these.
            following = rest["offset"][0].as_py()
        return now, max(following, now["offset"][now.num_rows - 1].as_py() + 1)


def _from(rows: pa.Table | None, position: int) -> pa.Table | None:
    """What is read ahead, if it goes on exactly at `position`."""
    if rows is None or rows["offset"][0].as_py() != position:
        return None
    return rows
