"""One partition on this node at run time: its state, lease, cursor and facts on their way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import structlog

from consumer_service.ownership.member_partitions import AssignmentRows, MemberPartitions
from consumer_service.ownership.partition_states import Cause, PartitionState, advance
from coordination.groups.leases import Lease
from lakequeue.clock import boot_seconds
from lakequeue.records import Epoch, TopicId, TopicPartition
from queue_rules.queues.attempts import Move
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.refused_letters import RefusedLetters
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key

log = structlog.get_logger()

_TOLD: Final = frozenset({"state", "lease", "void", "superseded_by", "generation", "start"})
"""What `OwnedPartition.row` is made of."""


@dataclass(eq=False)
class OwnedPartition:
    """A partition that a member of this node has, or is about to have.

    `lock` guards everything but `rows`, which belongs to whoever has `fetching`. Take `fetching`
    before `lock`, and never wait for storage with `lock` held.
    """

    key: Key
    topic: str
    member: str
    """The member that has it; in a queue group the node, for all members that joined here."""
    state: PartitionState = PartitionState.UNASSIGNED
    lease: Lease | None = None
    uncertain: bool = False
    """An acquisition got no answer: perhaps we hold it, so it is taken before it is let go."""
    generation: int = 0
    start: int = 0
    """Offset that this ownership began at."""
    cursor: Cursor = field(default_factory=lambda: Cursor(0))
    mode: str = "stream"
    options: str = ""
    """The options of the group, JSON."""
    queue: QueuePartition | None = None
    """Queue groups, once owned: in place of the cursor."""
    unflushed: list[Move] = field(default_factory=list)
    """Queue groups: changes whose commit failed, for the next one to say."""
    refused_letters: RefusedLetters = field(default_factory=RefusedLetters)
    """Queue groups: dead letters that could not be sent."""
    moved: Callable[[Cause], None] = lambda _: None
    """Told of each change of the state."""
    release_by: float = 0.0
    """While releasing: acks of what is out are awaited until then (seconds, boot clock)."""
    closed: bool = False
    """While releasing: acks are refused as well, the lease is about to go."""
    paused: bool = False
    """Nothing leaves, though it is owned: somebody asked for that. Acks go on."""
    passed_at: float = float("-inf")
    """When its position was last made durable without an ack (seconds, boot clock)."""
    void: bool = False
    """The journal shard that it was taken in was sealed."""
    superseded_by: int = 0
    """A newer epoch that fenced us, noticed by whoever committed; the reconciler acts on it."""
    pending: int = 0
    """Facts submitted and not settled."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    settled: threading.Condition = field(init=False)
    where: TopicPartition = field(init=False)
    """The partition, apart from the group."""
    order: tuple[str, int] = field(init=False)
    """Its place among those of its group."""
    fetching: threading.Lock = field(default_factory=threading.Lock)
    rows: pa.Table | None = None
    """Rows read ahead from the files, from the cursor on: see `read_ahead`."""
    outdated: bool = False
    """Rows may have been erased or changed since these were read."""
    among: MemberPartitions[OwnedPartition] | None = None
    """All of its member, while it is one of them."""

    def __post_init__(self) -> None:
        self.settled = threading.Condition(self.lock)
        self.where = TopicPartition(self.key.topic_id, self.key.partition)
        self.order = (self.topic, self.key.partition)

    def __setattr__(self, name: str, value: object) -> None:
        """Whoever changes it need not think of those that remember something of it."""
        super().__setattr__(name, value)
        if name == "cursor":
            self.look_again()
        elif name in _TOLD and (among := self.among) is not None:
            among.changed()

    def look_again(self) -> None:
        """Its next poll has to look at it: a record has come, or the cursor has gone back."""
        if (among := self.among) is not None:
            among.mark(self)

    def rewind(self, delivered: int) -> None:
        """Have the next poll start at `delivered` again. Call with `fetching` and `lock` held."""
        self.cursor.rewind(delivered)
        self.rows = None
        self.look_again()

    def row(self) -> dict[str, Any] | None:
        """What its member is told of it: a row of `Assigned`. None: nothing any more."""
        if self.state is PartitionState.RELEASING:
            return None
        delivers = self.delivers
        return {
            "topic": self.topic,
            "partition": self.key.partition,
            "epoch": self.epoch if delivers else None,
            "generation": self.generation,
            "start": self.start if delivers else None,
        }

    def read_ahead(self) -> pa.Table | None:
        """`rows`, unless they are outdated. Call with `fetching` held, before a read."""
        if self.outdated:
            # In this order: what is read from now on is new.
            self.outdated = False
            self.rows = None
        return self.rows

    def read_anew(self) -> None:
        """Let go of what is read ahead; by whoever reads just now, before its next read."""
        self.outdated = True
        if self.fetching.acquire(blocking=False):
            self.rows = None
            self.fetching.release()

    @property
    def epoch(self) -> Epoch:
        """Epoch of the lease; 0 before there is one."""
        return Epoch(0) if self.lease is None else self.lease.epoch

    @property
    def accepts_acks(self) -> bool:
        """Whether acks under the current epoch may still be committed."""
        return self.state.accepts_acks and not (self.closed or self.void or self.superseded_by)

    @property
    def delivers(self) -> bool:
        """Whether records may leave, as far as the node knows; trust is asked for separately."""
        return self.state.delivers and not (self.void or self.superseded_by)

    def move(self, cause: Cause) -> None:
        """Change the state, and say so in the log."""
        with self.lock:
            before, self.state = self.state, advance(self.state, cause)
            log.debug(
                "partition.moved",
                group=self.key.group,
                topic=self.topic,
                partition=self.key.partition,
                epoch=self.epoch,
                transition=cause.value,
                before=before.label,
                after=self.state.label,
            )
        self.moved(cause)

    def trusted(self) -> bool:
        """Whether the lease is certainly held now: its session lives, its time has not passed."""
        return self.lease is not None and self.lease.trusted()

    def trusted_for_ms(self) -> int:
        """Milliseconds until the lease is not trusted any more, if nothing renews it."""
        if self.lease is None:
            return 0
        return max(0, int((self.lease.session.trusted_until - boot_seconds()) * 1_000))

    def settle(self, timeout_s: float) -> bool:
        """Wait until no fact of this partition is on its way; False if that took too long."""
        with self.settled:
            return self.settled.wait_for(lambda: self.pending == 0, timeout_s)


class OwnedPartitions:
    """All partitions of this node, by group and partition. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Key, OwnedPartition] = {}
        self._of_group: dict[str, list[OwnedPartition]] = {}
        """Group → its partitions in their order; a list is replaced and never changed, so that each
        poll can take it as it is."""
        self._of_member: dict[tuple[str, str], MemberPartitions[OwnedPartition]] = {}
        self._at: dict[TopicId, dict[TopicPartition, list[OwnedPartition]]] = {}
        """Topic → partition → who has it, of all groups; a list as above."""
        self.moved: Callable[[Cause], None] = lambda _: None
        """Told of each change of the state of a partition here."""

    def get(self, key: Key) -> OwnedPartition | None:
        """The partition, in whatever state it is."""
        return self._held.get(key)

    def all(self) -> list[OwnedPartition]:
        """A snapshot."""
        with self._lock:
            return list(self._held.values())

    def of_member(self, group: str, member: str) -> list[OwnedPartition]:
        """The partitions that a member has or is about to have, in a steady order."""
        mine = self._of_member.get((group, member))
        return [] if mine is None else mine.all

    def told(self, group: str, member: str) -> AssignmentRows:
        """What a member is told that it has."""
        mine = self._of_member.get((group, member))
        return AssignmentRows([]) if mine is None else mine.told()

    def look(
        self, group: str, member: str, has_something: Callable[[OwnedPartition], bool], now: float
    ) -> list[OwnedPartition]:
        """Those of a member that have something, see `MemberPartitions.look`."""
        mine = self._of_member.get((group, member))
        return [] if mine is None else mine.look(has_something, now)

    def of_group(self, group: str) -> list[OwnedPartition]:
        """The partitions of a group, in a steady order."""
        return self._of_group.get(group, [])

    def has(self, topic_id: TopicId) -> bool:
        """Whether any group has a partition of the topic here."""
        return topic_id in self._at

    def at(self, places: Iterable[TopicPartition]) -> list[OwnedPartition]:
        """These partitions of all groups."""
        nothing: dict[TopicPartition, list[OwnedPartition]] = {}
        return [
            owned
            for place in places
            for owned in self._at.get(place.topic_id, nothing).get(place, ())
        ]

    def read_anew(self) -> None:
        """Rows of the log may have been erased or changed."""
        for owned in self.all():
            owned.read_anew()

    def queues(self) -> list[OwnedPartition]:
        """The partitions of all queue groups."""
        return [owned for owned in self.all() if owned.mode == "queue"]

    def add(self, owned: OwnedPartition) -> None:
        """Remember a partition that was just assigned."""
        with self._lock:
            if (replaced := self._held.get(owned.key)) is not None:
                self._leave_member(replaced)
            self._held[owned.key] = owned
            self._arrange(owned.key, owned)
            places = self._at.setdefault(owned.key.topic_id, {})
            places[owned.where] = [*_others(places, owned), owned]
            # It is marked, so afterwards: whoever has missed it there has nothing to add.
            self._of_member.setdefault(_member_of(owned), MemberPartitions()).add(owned)
        owned.moved = lambda cause: self.moved(cause)

    def remove(self, gone: Iterable[OwnedPartition]) -> None:
        """Forget partitions that are unassigned now."""
        with self._lock:
            for owned in gone:
                if self._held.get(owned.key) is owned:
                    del self._held[owned.key]
                    self._arrange(owned.key)
                    self._leave(owned)
                    self._leave_member(owned)

    def _leave(self, owned: OwnedPartition) -> None:
        places = self._at[owned.key.topic_id]
        places[owned.where] = _others(places, owned)
        if not places[owned.where]:
            del places[owned.where]
        if not places:
            del self._at[owned.key.topic_id]

    def _leave_member(self, owned: OwnedPartition) -> None:
        mine = self._of_member[_member_of(owned)]
        mine.remove(owned)
        if not mine.all:
            del self._of_member[_member_of(owned)]

    def _arrange(self, key: Key, *new: OwnedPartition) -> None:
        """Have `new` at the place of `key`, or nothing."""
        rest = [owned for owned in self._of_group.get(key.group, []) if owned.key != key]
        found = sorted([*rest, *new], key=attrgetter("order"))
        if found:
            self._of_group[key.group] = found
        else:
            self._of_group.pop(key.group, None)


def _member_of(owned: OwnedPartition) -> tuple[str, str]:
    return owned.key.group, owned.member


def _others(
    places: Mapping[TopicPartition, list[OwnedPartition]], owned: OwnedPartition
) -> list[OwnedPartition]:
    """Of the same partition, those of other groups."""
    return [other for other in places.get(owned.where, []) if other.key != owned.key]
