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
| records | queue groups, within the newest generation: `record_states`, offset by offset |

A commit made under a superseded epoch still counts if it is further ahead: those records were
delivered and acknowledged, and the fence keeps such commits out of a shard once it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from lakequeue.clock import Micros
from lakequeue.records import Epoch, Offset, Partition, ShardName, TopicId
from queue_tables.groups.record_states import (
    NEVER,
    NOTHING,
    RECORD_KINDS,
    SETTLES,
    STAGE_OF,
    OpenRecord,
    RecordStates,
    join_records,
)
from queue_tables.groups.terminal_states import DeadRecord

QUEUE = "queue"
"""Mode of a group whose records are acked one by one."""
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

    DELIVERED = "delivered"
    """Queue groups: these records are with a member, in this attempt, until the deadline."""
    PARKED = "parked"
    """They rest until they are due: given back, or (attempt 0) not to be delivered before."""
    ACKED = "acked"
    """They are done."""
    DYING = "dying"
    """They are to go to the dead-letter topic."""
    DEAD = "dead"
    """They stand in the dead-letter topic."""
    EXPIRED = "expired"
    """Their time to live was over before they were delivered."""

    @property
    def of_records(self) -> bool:
        """Whether it is about single records of a queue group."""
        return self.value in RECORD_KINDS


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
    """One row of a journal shard. `shard` is where it was read, and is not written.

    Facts of records hold for the offsets `offset` to `end_offset` - 1 (None: for `offset` alone).
    """

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
    end_offset: Offset | None = None
    attempt: int | None = None
    until: Micros | None = None
    first_at: Micros | None = None
    key_hash: int | None = None
    expires_at: Micros | None = None
    reason: str = ""
    dead_letter: str = ""
    options: str = ""

    @property
    def key(self) -> Key:
        """The group and partition it is about."""
        return Key(self.group, self.topic_id, self.partition)


@dataclass(frozen=True, slots=True)
class GroupState:
    """State of one partition in one group. Treat `holders` and `records` as immutable.

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
    options: str = ""
    records: RecordStates = NOTHING

    @property
    def key(self) -> Key:
        """The group and partition it is about."""
        return Key(self.group, self.topic_id, self.partition)

    @property
    def needed_from(self) -> Offset:
        """The lowest offset that the group still needs: the log must keep it."""
        committed = self.committed_offset or 0
        return Offset(min(committed, self.records.needed_from) if self.is_queue else committed)

    @property
    def is_queue(self) -> bool:
        """It has states of single records."""
        return self.records is not NOTHING

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
    records = position.records
    if a.generation == b.generation:
        records = join_records(a.records, b.records)
    holders = dict(a.holders)
    for shard, word in b.holders.items():
        holders[shard] = max(word, holders.get(shard, word))
    return replace(
        owner,
        topic=max(a.topic, b.topic),
        generation=position.generation,
        committed_offset=committed_of(position.committed_offset, records),
        holders=holders,
        changed_at=max(a.changed_at, b.changed_at),
        records=records,
    )


def committed_of(offset: Offset | None, records: RecordStates) -> Offset | None:
    """The next offset to deliver: in a queue group the first that was never seen."""
    gap = records.first_gap
    return Offset(max(gap, offset or 0)) if gap else offset


def _position(state: GroupState) -> tuple[int, int]:
    offset = state.committed_offset
    return state.generation, -1 if offset is None else offset


def _owner(state: GroupState) -> tuple[int, bool, str, str, str, str]:
    return (
        state.epoch, state.deleted, state.owner_shard, state.member, state.mode, state.options,
    )  # fmt: skip


def state_of(fact: Fact) -> GroupState:
    """What this fact alone says."""
    if fact.kind.of_records:
        return _news_of(fact)
    moves = fact.kind is not Kind.TAKEN
    records = NOTHING
    if fact.mode == QUEUE and moves and fact.offset:
        records = RecordStates.settled((0, fact.offset))
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
        options=fact.options,
        records=NOTHING if fact.kind is Kind.GROUP_DELETED else records,
    )


def _news_of(fact: Fact) -> GroupState:
    """What a fact of records says. Its member is a consumer, and no owner."""
    first = fact.offset or 0
    end = first + 1 if fact.end_offset is None else fact.end_offset
    if fact.kind is Kind.EXPIRED:
        records = RecordStates.expired((first, end))
    elif fact.kind is Kind.DEAD:
        records = RecordStates.died(
            DeadRecord(offset, fact.attempt or 0, fact.reason, fact.dead_letter)
            for offset in range(first, end)
        )
    elif fact.kind.value in SETTLES:
        records = RecordStates.settled((first, end))
    else:
        expires_at = NEVER if fact.expires_at is None else fact.expires_at
        records = RecordStates.opened(
            OpenRecord(
                offset,
                fact.attempt or 0,
                STAGE_OF[fact.kind.value],
                fact.until or 0,
                fact.first_at or 0,
                fact.key_hash or 0,
                expires_at,
                fact.member,
                fact.reason,
            )
            for offset in range(first, end)
        )
    return GroupState(
        fact.group,
        fact.topic_id,
        fact.partition,
        topic=fact.topic,
        mode=fact.mode,
        generation=fact.generation,
        committed_offset=committed_of(None, records),
        epoch=fact.epoch,
        owner_shard=fact.shard,
        changed_at=fact.at,
        records=records,
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
    return fold_news(states, map(state_of, facts), fences, sealed)


def fold_news(
    states: Mapping[Key, GroupState],
    all_news: Iterable[GroupState],
    fences: Iterable[Fence] = (),
    sealed: Collection[ShardName] = frozenset(),
) -> States:
    """As `fold`, of facts that are states already (`news_from_arrow`)."""
    folded = dict(states)
    for news in all_news:
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
