"""Acknowledgements of a stream group: judged against the cursors, made durable, then answered.

A position is answered as committed only if, *after* its fact became durable, the lease was still
trusted. Otherwise a newer owner may have read the tables without it: then the outcome is unknown,
and said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from consumer_service.ownership.held import Held, Holdings
from consumer_service.ownership.journal import Entry, Journal, wait_committed
from consumer_service.ownership.takeover import fact_of
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import (
    CoordinationUnavailable,
    Overloaded,
)
from lakequeue.wire import AckAnswer, Committed, RefusedAck
from queue_rules.streams.cursor import Cursor
from queue_rules.streams.wanted import Wanted, judge, superseded
from queue_tables.groups.facts import Key, Kind

PASS_EVERY_S = 1.0
"""How often a partition's position is made durable without an ack."""


class Acks:
    """The acknowledgements of all members of the node; thread-safe."""

    def __init__(self, journal: Journal, holdings: Holdings) -> None:
        self._journal = journal
        self._holdings = holdings

    def commit(
        self,
        member: str,
        wanted: dict[Key, list[Wanted]],
        ends: Mapping[Key, int],
        *,
        through: bool,
    ) -> AckAnswer:
        """Make the positions durable.

        Errors: `SkippedRecords`, `InvalidRequest`, `OffsetOutOfRange` (nothing has changed);
        `EpochSuperseded` with what was committed and refused; `CoordinationUnavailable` with
        `stored` "unknown" when the lease ran out meanwhile.
        """
        refused: list[RefusedAck] = []
        mine: dict[Key, Held] = {}
        for key, parts in wanted.items():
            held = self._holdings.get(key)
            stale = [w for w in parts if not _accepts(held, member, w.epoch)]
            if held is None or stale:
                refused += [_refusal(key, held, w) for w in stale]
            else:
                mine[key] = held
        positions, entry = self._submit(mine, wanted, ends, through=through)
        for key in mine.keys() - positions.keys():
            # Given up between the first look and the lock.
            held = mine.pop(key)
            refused += [_refusal(key, held, w) for w in wanted[key]]
        committed: list[Committed] = []
        for key, held in mine.items():
            newer = entry.refused.get(key)
            if newer is not None:
                refused.append(
                    RefusedAck(
                        topic=held.topic,
                        partition=key.partition,
                        epoch=held.epoch,
                        current_epoch=newer or None,
                    )
                )
                continue
            committed.append(
                Committed(topic=held.topic, partition=key.partition, offset=positions[key])
            )
        self._check_trust(mine)
        answer = AckAnswer(committed=committed, refused=refused)
        if refused:
            raise superseded(answer)
        return answer

    def pass_on(self, held: Held) -> None:
        """Make durable what a predicate has passed over, in the background, now and then.

        Otherwise a group that nothing matches for long would look through it all again after a
        restart, and show a lag that it has not.
        """
        now = boot_seconds()
        with held.lock:
            early = now < held.passed_at + PASS_EVERY_S
            if early or held.pending or not held.accepts_acks or not held.trusted():
                return
            if not held.cursor.pass_over():
                return
            held.passed_at = now
            position = held.cursor.accepted
            fact = fact_of(Kind.COMMITTED, held, held.generation, position, wall_micros())
            try:
                entry, future = self._journal.submit([fact])
            except Overloaded:
                return  # the next look says it
            held.pending += 1
        future.add_done_callback(partial(_settle, entry, [(held, position)]))

    def _submit(
        self,
        mine: dict[Key, Held],
        wanted: dict[Key, list[Wanted]],
        ends: Mapping[Key, int],
        *,
        through: bool,
    ) -> tuple[dict[Key, int], Entry]:
        """Judge all partitions, then move all cursors and queue the facts; wait for them.

        Partitions that were given up meanwhile have no position in the answer.
        """
        with _locked(mine.values()):
            mine = {key: held for key, held in mine.items() if held.accepts_acks}
            cursors = {key: _copy(held.cursor) for key, held in mine.items()}
            positions = {
                key: judge(cursors[key], wanted[key], ends.get(key, 0), through=through)
                for key in mine
            }
            at = wall_micros()
            facts = [
                fact_of(Kind.COMMITTED, held, held.generation, positions[key], at)
                for key, held in mine.items()
                if positions[key] > held.cursor.durable
            ]
            if not facts:
                return positions, Entry([])
            entry, future = self._journal.submit(facts)
            for fact in facts:
                held = mine[fact.key]
                held.cursor = cursors[fact.key]
                held.pending += 1
        moving = [(mine[fact.key], positions[fact.key]) for fact in facts]
        # Settled by the committer, not here: a caller that gave up waiting must not let a
        # hand-over go on while its facts are still on their way.
        future.add_done_callback(partial(_settle, entry, moving))
        wait_committed(future, "the position may be committed or not; ack again")
        return positions, entry

    def _check_trust(self, mine: dict[Key, Held]) -> None:
        if mine and not all(held.trusted() for held in mine.values()):
            raise CoordinationUnavailable(
                "the lease could not be confirmed after the commit",
                hint="the position may be committed or not; ack again once polls work again",
                stored="unknown",
                retry_after_s=1.0,
            )


def _settle(entry: Entry, moving: list[tuple[Held, int]], future: Future[Any]) -> None:
    durable = future.exception() is None
    for held, position in moving:
        with held.settled:
            held.pending -= 1
            held.superseded_by = entry.refused.get(held.key, held.superseded_by)
            if durable and held.key not in entry.refused:
                held.cursor.made_durable(position)
            held.settled.notify_all()


def _accepts(held: Held | None, member: str, epoch: int | None) -> bool:
    if held is None or held.member != member or not held.accepts_acks:
        return False
    return epoch is None or epoch == held.epoch


def _copy(cursor: Cursor) -> Cursor:
    return replace(cursor, gaps=dict(cursor.gaps))


def _refusal(key: Key, held: Held | None, wanted: Wanted) -> RefusedAck:
    return RefusedAck(
        topic=held.topic if held is not None else wanted.topic,
        partition=key.partition,
        epoch=wanted.epoch or 0,
        current_epoch=held.epoch or None if held is not None else None,
    )


@contextmanager
def _locked(held: Iterable[Held]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in sorted(held, key=lambda h: h.key):
            stack.enter_context(one.lock)
        yield
