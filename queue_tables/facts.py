"""Facts of consumption, and the fold that turns them into the state of each group and partition.

Consumer-service processes append facts to their own journal shards; nobody keeps them in one
order. So folding is a *join*: each part of a `GroupState` only ever grows in an order of its own,
and joining takes the larger. It follows that facts may be folded in any order, any number of
times and in any grouping, and the state is the same; a late fact cannot move a group backwards.

| part | grows by |
|---|---|
| position | (generation, offset): a seek raises the generation, a commit the offset |
| owner | (epoch, deleted, shard, member, mode) of the facts seen |
| holders | for each shard its newest word on the partition, (epoch, taken before fenced) |

A commit made under a superseded epoch still counts if it is further ahead: those records were
delivered and acknowledged, and the fence keeps such commits out of a shard once it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from lakequeue.clock import Micros
from lakequeue.records import Epoch, Offset, Partition, ShardName, TopicId
from queue_tables.schemas import GROUP_OFFSETS, JOURNAL

DELETED = "deleted"
"""Mode of a group whose newest word is that it was deleted."""


_NOWHERE = ShardName("")
_NEVER = Epoch(0)


class Kind(StrEnum):
    """What a fact says."""

    TAKEN = "taken"
    """The shard's owner holds the lease of this epoch, and may deliver from now on."""
    COMMITTED = "committed"
    """Everything below `offset` is consumed."""
    SEEK = "seek"
    """The position is `offset`, in a generation above all earlier ones."""
    GROUP_DELETED = "group_deleted"
    """The group is gone: in a new generation, nothing is committed."""


class Key(NamedTuple):
    """What a state is about."""

    group: str
    topic_id: TopicId
    partition: Partition


class Word(NamedTuple):
    """A shard's newest word on a partition: compares by epoch, taken above fenced at one epoch."""

    epoch: Epoch
    taken: bool


class Fence(NamedTuple):
    """Found in a commit of `shard`: a taker with `epoch` has shut out what is older there."""

    shard: ShardName
    group: str
    topic_id: TopicId
    partition: Partition
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Fact:
    """One row of a journal shard. `shard` is where it was read, and is not written."""

    kind: Kind
    group: str
    topic: str
    topic_id: TopicId
    partition: Partition
    generation: int
    epoch: Epoch
    offset: Offset | None = None
    member: str = ""
    mode: str = "stream"
    at: Micros = 0
    shard: ShardName = _NOWHERE

    @property
    def key(self) -> Key:
        """The group and partition it is about."""
        return Key(self.group, self.topic_id, self.partition)


@dataclass(frozen=True, slots=True)
class GroupState:
    """State of one partition in one group. Treat `holders` as immutable.

    `committed_offset` is the next offset to deliver, `None` while nothing is committed.
    """

    group: str
    topic_id: TopicId
    partition: Partition
    topic: str = ""
    mode: str = ""
    generation: int = 0
    committed_offset: Offset | None = None
    epoch: Epoch = _NEVER
    owner_shard: ShardName = _NOWHERE
    member: str = ""
    holders: Mapping[ShardName, Word] = field(default_factory=dict)
    changed_at: Micros = 0

    @property
    def key(self) -> Key:
        """The group and partition it is about."""
        return Key(self.group, self.topic_id, self.partition)

    @property
    def deleted(self) -> bool:
        """The group was deleted, and nobody has taken the partition since."""
        return self.mode == DELETED

    @property
    def highest_epoch(self) -> Epoch:
        """The highest lease epoch that the tables record: a new one must be above it."""
        return max((self.epoch, *(word.epoch for word in self.holders.values())))

    def to_fence(self, epoch: Epoch) -> list[ShardName]:
        """The shards that a taker with `epoch` must fence before it reads the position."""
        return sorted(s for s, word in self.holders.items() if word.taken and word.epoch < epoch)


States = dict[Key, GroupState]


def join(a: GroupState, b: GroupState) -> GroupState:
    """The least state that is at or above both; `a` and `b` are about the same partition."""
    position = max(a, b, key=_position)
    owner = max(a, b, key=_owner)
    holders = dict(a.holders)
    for shard, word in b.holders.items():
        holders[shard] = max(word, holders.get(shard, word))
    return replace(
        owner,
        topic=max(a.topic, b.topic),
        generation=position.generation,
        committed_offset=position.committed_offset,
        holders=holders,
        changed_at=max(a.changed_at, b.changed_at),
    )


def _position(state: GroupState) -> tuple[int, int]:
    offset = state.committed_offset
    return state.generation, -1 if offset is None else offset


def _owner(state: GroupState) -> tuple[int, bool, str, str, str]:
    return state.epoch, state.deleted, state.owner_shard, state.member, state.mode


def _state_of(fact: Fact) -> GroupState:
    """What this fact alone says."""
    moves = fact.kind is not Kind.TAKEN
    return GroupState(
        fact.group,
        fact.topic_id,
        fact.partition,
        topic=fact.topic,
        mode=DELETED if fact.kind is Kind.GROUP_DELETED else fact.mode,
        generation=fact.generation if moves else 0,
        committed_offset=fact.offset if moves and fact.kind is not Kind.GROUP_DELETED else None,
        epoch=fact.epoch,
        owner_shard=fact.shard,
        member=fact.member,
        holders={fact.shard: Word(fact.epoch, True)} if fact.kind is Kind.TAKEN else {},
        changed_at=fact.at,
    )


def fold(
    states: Mapping[Key, GroupState],
    facts: Iterable[Fact],
    fences: Iterable[Fence] = (),
    sealed: Collection[ShardName] = frozenset(),
) -> States:
    """Join `facts` and `fences` into `states`, and return the new states.

    `sealed` names shards that take no more commits: they need no fence, and are forgotten as
    holders (unless their fence holds the highest epoch known, which must not be handed out again).
    """
    folded = dict(states)
    for fact in facts:
        news = _state_of(fact)
        known = folded.get(news.key)
        folded[news.key] = news if known is None else join(known, news)
    for shard, group, topic_id, partition, epoch in fences:
        news = GroupState(group, topic_id, partition, holders={shard: Word(epoch, False)})
        known = folded.get(news.key)
        folded[news.key] = news if known is None else join(known, news)
    if not sealed:
        return folded
    return {key: _forget(state, sealed) for key, state in folded.items()}


def _forget(state: GroupState, sealed: Collection[ShardName]) -> GroupState:
    kept = {
        shard: word
        for shard, word in state.holders.items()
        if shard not in sealed or word.epoch > state.epoch
    }
    return state if len(kept) == len(state.holders) else replace(state, holders=kept)


# -- rendering ----------------------------------------------------------------------------------

_FACT_COLUMNS = [f.name for f in JOURNAL.arrow if f.name not in {"hour", "stamp", "row"}]


def to_arrow(facts: Iterable[Fact]) -> pa.Table:
    """The rows of `facts` for a journal shard: without hour, stamp and row, which a shard adds."""
    rows = [
        {name: getattr(fact, name) for name in _FACT_COLUMNS} | {"kind": fact.kind.value}
        for fact in facts
    ]
    return pa.Table.from_pylist(rows, schema=_schema(JOURNAL.arrow, _FACT_COLUMNS))


def from_arrow(table: pa.Table, shard: ShardName) -> list[Fact]:
    """The facts in rows that were read from `shard`; kinds of newer releases are passed over."""
    rows = _micros(table.select(_FACT_COLUMNS), "at").to_pylist()
    known = set(Kind)
    return [
        Fact(**(row | {"kind": Kind(row["kind"]), "shard": shard, "member": row["member"] or ""}))
        for row in rows
        if row["kind"] in known
    ]


def states_to_arrow(states: Iterable[GroupState]) -> pa.Table:
    """The rows of `group_offsets`, in the order of their keys."""
    rows: list[dict[str, Any]] = [
        {f.name: getattr(state, f.name) for f in GROUP_OFFSETS.arrow}
        | {
            "holders": [
                {"shard": shard, "epoch": word.epoch, "taken": word.taken}
                for shard, word in sorted(state.holders.items())
            ]
        }
        for state in sorted(states, key=lambda state: state.key)
    ]
    return pa.Table.from_pylist(rows, schema=GROUP_OFFSETS.arrow)


def states_from_arrow(table: pa.Table) -> States:
    """The states in rows of `group_offsets`."""
    states: States = {}
    for row in _micros(table, "changed_at").to_pylist():
        holders = {h["shard"]: Word(h["epoch"], h["taken"]) for h in row["holders"] or ()}
        state = GroupState(**(row | {"holders": holders}))
        states[state.key] = state
    return states


def _schema(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _micros(table: pa.Table, column: str) -> pa.Table:
    """`table` with a time column as whole microseconds."""
    at = table.schema.get_field_index(column)
    return table.set_column(at, column, table[column].cast(pa.int64()))
