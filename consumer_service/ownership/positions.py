"""Where a partition goes on at its next owner. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from queue_tables.groups.facts import GroupState, Key
from queue_tables.schema.marks import consumed_mark, generation_mark


@dataclass(frozen=True, slots=True)
class Position:
    """Where a partition goes on."""

    generation: int
    offset: int
    make_durable: bool
    """It stands in no table yet, and a restart must find it."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """What the group's transforms have consumed of a partition."""

    generation: int
    """Since which seek."""
    offset: int


def consumed_of(state: GroupState | None, key: Key, marks: Mapping[str, int]) -> Consumed | None:
    """Since the last seek; None: nothing. Pure.

    In the copy of a queue the marks may know of a seek that the state does not: positions are read
    before them.
    """
    known = 0 if state is None else state.generation
    place = key.group, key.topic_id, key.partition
    generation = max(known, marks.get(generation_mark(*place), 0))
    offset = marks.get(consumed_mark(*place, generation))
    return None if offset is None else Consumed(generation, offset)


def says_where(state: GroupState | None) -> bool:
    """Whether the tables say where a partition goes on. Pure.

    In a stream group a committed position says so; a state of a queue group always does.
    """
    return state is not None and (state.committed_offset is not None or state.is_queue)


def position_of(
    state: GroupState | None, start: int | None, consumed: Consumed | None = None
) -> Position:
    """Where to go on. Pure.

    The committed position, or what transforms have consumed if that is more: their output is in the
    log, whether they came to commit or not. Else `start`, else the beginning.
    """
    generation = 0 if state is None else state.generation
    committed = None if state is None else state.committed_offset
    if consumed is not None and (consumed.generation, consumed.offset) > (
        generation,
        -1 if committed is None else committed,
    ):
        return Position(consumed.generation, consumed.offset, make_durable=True)
    if committed is not None:
        return Position(generation, committed, make_durable=False)
    return Position(generation, start or 0, make_durable=start is not None)
