"""Acknowledgements of a stream group: judged against the cursors, made durable, then answered.

A position is answered as committed only if, *after* its fact became durable, the lease was still
trusted. Otherwise a newer owner may have read the tables without it: then the outcome is unknown,
and said so.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.settlement import Settlement, check_trusted
from consumer_service.ownership.takeover import fact_of
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import Overloaded
from lakequeue.wire import AckAnswer, Committed, RefusedAck
from queue_rules.streams.commit_request import (
    CommitRequest,
    Owner,
    judge,
    refusal_of,
    refused_by,
    superseded,
)
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key, Kind
from serving.front.parking import Steps

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
    ) -> Steps[AckAnswer]:
        """Make the positions durable.

        Errors: `SkippedRecords`, `InvalidRequest`, `OffsetOutOfRange` (nothing has changed);
        `EpochSuperseded` with what was committed and refused; `CoordinationUnavailable` with
        `stored` "unknown" when the lease ran out meanwhile.
        """
        refused: list[RefusedAck] = []
        mine: dict[Key, OwnedPartition] = {}
        for key, parts in wanted.items():
            owned = self._owned_partitions.get(key)
            stale = refused_by(_owner(owned), member, key, parts)
            if owned is None or stale:
                refused += stale
            else:
                mine[key] = owned
        positions, settlement = self._submit(mine, wanted, ends, through=through)
        yield from settlement.steps("the position may be committed or not; ack again")
        for key in mine.keys() - positions.keys():
            # Given up between the first look and the lock.
            owned = mine.pop(key)
            refused += [refusal_of(_owner(owned), key, part) for part in wanted[key]]
        committed: list[Committed] = []
        for key, owned in mine.items():
            newer = settlement.newer_epoch(owned)
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
        check_trusted(
            mine.values(),
            "the position may be committed or not; ack again once polls work again",
        )
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
        with Settlement(self._journal, [owned]) as settlement:
            early = now < owned.passed_at + PASS_EVERY_S
            if early or owned.pending or not owned.accepts_acks or not owned.trusted():
                return
            if not owned.cursor.skip():
                return
            owned.passed_at = now
            position = owned.cursor.accepted
            fact = fact_of(Kind.COMMITTED, owned, owned.generation, position, wall_micros())
            with suppress(Overloaded):  # the next look says it
                settlement.submit([fact], partial(_settled, {owned.key: position}))

    def _submit(
        self,
        mine: dict[Key, OwnedPartition],
        wanted: dict[Key, list[CommitRequest]],
        ends: Mapping[Key, int],
        *,
        through: bool,
    ) -> tuple[dict[Key, int], Settlement]:
        """Judge all partitions, then move all cursors and queue the facts; wait for them.

        Partitions that were given up meanwhile have no position in the answer.
        """
        with Settlement(self._journal, mine.values()) as settlement:
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
            if facts:
                settlement.submit(facts, partial(_settled, positions))
            for fact in facts:
                mine[fact.key].cursor = cursors[fact.key]
        return positions, settlement


def _settled(positions: Mapping[Key, int], owned: OwnedPartition, stands: bool) -> None:
    if stands:
        owned.cursor.made_durable(positions[owned.key])


def _owner(owned: OwnedPartition | None) -> Owner | None:
    return (
        None if owned is None else Owner(owned.topic, owned.member, owned.epoch, owned.accepts_acks)
    )


def _copy(cursor: Cursor) -> Cursor:
    return replace(cursor, gaps=dict(cursor.gaps))
