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

from consumer_service.ownership.journal import Entry, Journal, wait_committed
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.takeover import fact_of
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import (
    CoordinationUnavailable,
    Overloaded,
)
from lakequeue.wire import AckAnswer, Committed, RefusedAck
from queue_rules.streams.commit_request import CommitRequest, judge, superseded
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key, Kind

PASS_EVERY_S = 1.0
"""How often a partition's position is made durable without an ack."""


class Acks:
    """The acknowledgements of all members of the node; thread-safe."""

    def __init__(self, journal: Journal, owned_partitions: OwnedPartitions) -> None:
        self._journal = journal
        self._owned_partitions = owned_partitions

    def commit(
        self,
        member: str,
        wanted: dict[Key, list[CommitRequest]],
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
        mine: dict[Key, OwnedPartition] = {}
        for key, parts in wanted.items():
            owned = self._owned_partitions.get(key)
            stale = [w for w in parts if not _accepts(owned, member, w.epoch)]
            if owned is None or stale:
                refused += [_refusal(key, owned, w) for w in stale]
            else:
                mine[key] = owned
        positions, entry = self._submit(mine, wanted, ends, through=through)
        for key in mine.keys() - positions.keys():
            # Given up between the first look and the lock.
            owned = mine.pop(key)
            refused += [_refusal(key, owned, w) for w in wanted[key]]
        committed: list[Committed] = []
        for key, owned in mine.items():
            newer = entry.refused.get(key)
            if newer is not None:
                refused.append(
                    RefusedAck(
                        topic=owned.topic,
                        partition=key.partition,
                        epoch=owned.epoch,
                        current_epoch=newer or None,
                    )
                )
                continue
            committed.append(
                Committed(topic=owned.topic, partition=key.partition, offset=positions[key])
            )
        self._check_trust(mine)
        answer = AckAnswer(committed=committed, refused=refused)
        if refused:
            raise superseded(answer)
        return answer

    def pass_on(self, owned: OwnedPartition) -> None:
        """Make durable what a predicate has skipped, in the background, now and then.

        Otherwise a group that nothing matches for long would look through it all again after a
        restart, and show a lag that it has not.
        """
        now = boot_seconds()
        with owned.lock:
            early = now < owned.passed_at + PASS_EVERY_S
            if early or owned.pending or not owned.accepts_acks or not owned.trusted():
                return
            if not owned.cursor.skip():
                return
            owned.passed_at = now
            position = owned.cursor.accepted
            fact = fact_of(Kind.COMMITTED, owned, owned.generation, position, wall_micros())
            try:
                entry, future = self._journal.submit([fact])
            except Overloaded:
                return  # the next look says it
            owned.pending += 1
        future.add_done_callback(partial(_settle, entry, [(owned, position)]))

    def _submit(
        self,
        mine: dict[Key, OwnedPartition],
        wanted: dict[Key, list[CommitRequest]],
        ends: Mapping[Key, int],
        *,
        through: bool,
    ) -> tuple[dict[Key, int], Entry]:
        """Judge all partitions, then move all cursors and queue the facts; wait for them.

        Partitions that were given up meanwhile have no position in the answer.
        """
        with _locked(mine.values()):
            mine = {key: owned for key, owned in mine.items() if owned.accepts_acks}
            cursors = {key: _copy(owned.cursor) for key, owned in mine.items()}
            positions = {
                key: judge(cursors[key], wanted[key], ends.get(key, 0), through=through)
                for key in mine
            }
            at = wall_micros()
            facts = [
                fact_of(Kind.COMMITTED, owned, owned.generation, positions[key], at)
                for key, owned in mine.items()
                if positions[key] > owned.cursor.durable
            ]
            if not facts:
                return positions, Entry([])
            entry, future = self._journal.submit(facts)
            for fact in facts:
                owned = mine[fact.key]
                owned.cursor = cursors[fact.key]
                owned.pending += 1
        moving = [(mine[fact.key], positions[fact.key]) for fact in facts]
        # Settled by the committer, not here: a caller that gave up waiting must not let a
        # hand-over go on while its facts are still on their way.
        future.add_done_callback(partial(_settle, entry, moving))
        wait_committed(future, "the position may be committed or not; ack again")
        return positions, entry

    def _check_trust(self, mine: dict[Key, OwnedPartition]) -> None:
        if mine and not all(owned.trusted() for owned in mine.values()):
            raise CoordinationUnavailable(
                "the lease could not be confirmed after the commit",
                hint="the position may be committed or not; ack again once polls work again",
                stored="unknown",
                retry_after_s=1.0,
            )


def _settle(entry: Entry, moving: list[tuple[OwnedPartition, int]], future: Future[Any]) -> None:
    durable = future.exception() is None
    for owned, position in moving:
        with owned.settled:
            owned.pending -= 1
            owned.superseded_by = entry.refused.get(owned.key, owned.superseded_by)
            if durable and owned.key not in entry.refused:
                owned.cursor.made_durable(position)
            owned.settled.notify_all()


def _accepts(owned: OwnedPartition | None, member: str, epoch: int | None) -> bool:
    if owned is None or owned.member != member or not owned.accepts_acks:
        return False
    return epoch is None or epoch == owned.epoch


def _copy(cursor: Cursor) -> Cursor:
    return replace(cursor, gaps=dict(cursor.gaps))


def _refusal(key: Key, owned: OwnedPartition | None, wanted: CommitRequest) -> RefusedAck:
    return RefusedAck(
        topic=owned.topic if owned is not None else wanted.topic,
        partition=key.partition,
        epoch=wanted.epoch or 0,
        current_epoch=owned.epoch or None if owned is not None else None,
    )


@contextmanager
def _locked(owned: Iterable[OwnedPartition]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in sorted(owned, key=lambda h: h.key):
            stack.enter_context(one.lock)
        yield
