"""The reconciler: one thread that brings what the node holds to what the controller has assigned.

It is the only one that changes a partition's state, except that anybody may notice that a newer
epoch has superseded one. On every change it looks at everything anew: what is lost is dropped,
what moved away is given back once its facts have settled, what is new is leased as soon as its
holder lets go, and taken over in one batch.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import structlog

from consumer_service.members import Member, Members
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.modes import Modes, by_mode
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.partition_states import Cause, PartitionState
from consumer_service.ownership.pauses import Pauses
from consumer_service.ownership.takeover import Start, Takeover
from consumer_service.ownership.unflushed_facts import flush_facts
from coordination.groups import leases, membership
from coordination.groups.controller import GroupAssignment, read_assignment
from coordination.groups.leases import Owner
from coordination.zookeeper.requests import UnexpectedAnswer
from coordination.zookeeper.session import Session
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import LakequeueError
from lakequeue.records import Partition, TopicId
from queue_rules.queues.attempts import returned_moves
from queue_tables.groups.facts import Key

log = structlog.get_logger()

LOOK_EVERY_S = 0.25
"""How often members' silence and slow releases are looked at without being told of a change."""
RELEASE_GRACE_S = 2.0
"""How long acks of records that are out are awaited when a partition moves to another member."""
SETTLE_S = 1.0
RETRY_S = 0.2
BURST_S = 0.1
"""How long what a dead node held is gathered. Its leases go at once, and the assignment that deals
them out follows; a take-over of those that were ours to wait for would hold up the others'."""
LEASING_S = 1.0
"""How long leases are taken in one look. What has one then is taken over before the others."""
SLOW_READ_S = 5.0
"""How often assignments are read without being told of a change."""

_S = PartitionState


class _AssignedPartition(NamedTuple):
    """What the controller gave to us."""

    topic: str
    holder: str
    """Who is to have it: see `Mode.holder`."""
    mode: str
    options: str


def in_turns(waiting: Iterable[OwnedPartition]) -> list[OwnedPartition]:
    """One of each group, then another of each: a group of thousands holds up no other."""
    seen: Counter[str] = Counter()
    turns = []
    for owned in waiting:
        turns.append((seen[owned.key.group], owned))
        seen[owned.key.group] += 1
    return [owned for _, owned in sorted(turns, key=itemgetter(0))]


class Reconciler:
    """Owns the owned partitions of a node."""

    def __init__(
        self,
        session: Session,
        node: str,
        journal: Journal,
        owned_partitions: OwnedPartitions,
        members: Members,
        takeover: Takeover,
        start_of: Start,
        modes: Modes,
    ) -> None:
        self._session = session
        self._node = node
        self._journal = journal
        self._owned_partitions = owned_partitions
        self._members = members
        self._takeover = takeover
        self._pauses = Pauses(session, journal, owned_partitions, members)
        self._start_of = start_of
        self._modes = modes
        self._changed = session.waker()
        self._stopping = threading.Event()
        self._assignments: dict[str, GroupAssignment] = {}
        self._sealed = threading.Event()
        self._gathered = False
        self._regained = 0
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)
        self.failure: str | None = None
        """Why the newest look failed; None while all is well."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Give everything back, then end; members must have been let go before."""
        self._stopping.set()
        self._changed.set()
        self._thread.join()

    def wake(self) -> None:
        """Something changed: look now."""
        self._changed.set()

    def sealed(self) -> None:
        """The journal shard was sealed: nothing taken in it counts any more."""
        self._sealed.set()
        self._changed.set()

    def assignment_version(self, group: str) -> int:
        """Version of the assignment that was read last."""
        known = self._assignments.get(group)
        return 0 if known is None else known.version

    def assignment(self, group: str) -> GroupAssignment | None:
        """The assignment that was read last; None before the first."""
        return self._assignments.get(group)

    def _run(self) -> None:
        read_at = float("-inf")
        while not self._stopping.is_set():
            changed = self._changed.wait(LOOK_EVERY_S)
            self._changed.clear()
            # Without a change only clocks have moved on: nothing is asked of ZooKeeper then.
            fresh = changed or boot_seconds() - read_at > SLOW_READ_S
            if fresh:
                read_at = boot_seconds()
            self._try(partial(self.step, fresh))
        self._try(self._drain)

    def _try(self, what: Callable[[], None]) -> None:
        try:
            what()
            self.failure = None
        except (LakequeueError, UnexpectedAnswer) as e:
            # ZooKeeper or storage is away: readiness shows it, and it is tried again.
            if self.failure is None:
                log.warning("reconciler.failed", error=str(e))
            self.failure = str(e)
            self._stopping.wait(RETRY_S)
            self._changed.set()
        except Exception as e:
            # A reconciler that ends would strand every partition.
            log.exception("reconciler.failed")
            self.failure = repr(e)
            self._stopping.wait(RETRY_S)
            self._changed.set()

    # -- one look ---------------------------------------------------------------------------------

    def step(self, fresh: bool = True) -> None:
        """Look at everything once; `fresh`: also at what ZooKeeper says."""
        self._members.expire(self._outstanding)
        if (regained := self._session.regained) != self._regained:
            self._regained = regained
            # Records that came while nothing could leave woke their polls in vain.
            self._members.wake_all()
        if self._drop_lost():
            fresh = True
        present = self._members.by_state()
        self._return_records(present.leaving)
        if not self._session.connected.is_set():
            return
        wanted = self._wanted(present.active, fresh)
        if self._give_back(wanted, present.active):
            fresh = True
        self._remove_members(present.leaving)
        if fresh:
            self._take(wanted)

    def _drain(self) -> None:
        self._drop_lost()
        present = self._members.by_state()
        self._return_records(present.leaving)
        self._give_back({}, present.active)
        self._remove_members(present.leaving)

    def _outstanding(self, member: Member) -> bool:
        mine = self._owned_partitions.of_member(member.group, member.member_id)
        return any(owned.state is _S.OWNED and owned.cursor.outstanding for owned in mine)

    def _drop_lost(self) -> bool:
        """Drop what is lost; whether anything is gone now."""
        if self._sealed.is_set():
            self._sealed.clear()
            for owned in self._owned_partitions.all():
                owned.void = owned.lease is not None
        gone: list[OwnedPartition] = []
        for owned in self._owned_partitions.all():
            if owned.lease is None:
                continue
            ended = owned.lease.lost()
            if owned.state is not _S.LOST:
                if not (ended or owned.void or owned.superseded_by):
                    continue
                owned.move(Cause.LOST)
            # After the session's end no ack is answered with 200. Before it, acks on their way
            # may be, so a new epoch must not read the tables before they have settled.
            if ended or self._let_go(owned):
                owned.move(Cause.DROPPED)
                gone.append(owned)
        self._owned_partitions.remove(gone)
        return bool(gone)

    def _wanted(self, active: list[Member], fresh: bool) -> dict[Key, _AssignedPartition]:
        """What is assigned to these members, or to this node in queue groups."""
        groups: dict[str, list[Member]] = {}
        for member in active:
            groups.setdefault(member.group, []).append(member)
        wanted: dict[Key, _AssignedPartition] = {}
        for group, present in groups.items():
            before = self._assignments.get(group)
            now = before
            if now is None or fresh:
                now = read_assignment(self._session, group, self._changed)
                self._assignments[group] = now
            for member in present:
                mode = member.request.mode
                holder = self._modes[mode].holder(member.member_id)
                for target in now.of(holder):
                    key = Key(group, TopicId(target.topic_id), Partition(target.partition))
                    wanted[key] = _AssignedPartition(target.topic, holder, mode, member.options)
                if before is None or before.version != now.version:
                    member.wake.set()
        for group in self._assignments.keys() - groups.keys():
            del self._assignments[group]
        return wanted

    # -- giving back ------------------------------------------------------------------------------

    def _give_back(self, wanted: dict[Key, _AssignedPartition], present: list[Member]) -> bool:
        """Let go of what moved away; whether anything is gone now."""
        active = {member.member_id for member in present}
        now = boot_seconds()
        gone: list[OwnedPartition] = []
        for owned in self._owned_partitions.all():
            to = wanted.get(owned.key)
            moves = to is None or to.holder != owned.member
            if owned.state is _S.LEASING and moves and not owned.uncertain:
                owned.move(Cause.WITHDRAWN)
                gone.append(owned)
            if owned.state is _S.OWNED and moves:
                with owned.lock:
                    owned.move(Cause.GIVEN_AWAY)
                    owned.release_by = now + RELEASE_GRACE_S
            if owned.state is _S.RELEASING:
                waits = owned.member in active and owned.cursor.outstanding
                if not (waits and now < owned.release_by) and self._release(owned):
                    gone.append(owned)
        self._owned_partitions.remove(gone)
        return bool(gone)

    def _release(self, owned: OwnedPartition) -> bool:
        if not self._let_go(owned):
            return False
        owned.move(Cause.RELEASED)
        return True

    def _let_go(self, owned: OwnedPartition) -> bool:
        with owned.lock:
            owned.closed = True
        flush_facts(owned, self._journal)
        if not owned.settle(SETTLE_S):
            # A commit hangs. Within this node only its end makes a hand-over safe.
            return False
        if owned.lease is not None:
            leases.release(owned.lease)
        return True

    def _remove_members(self, leaving: list[Member]) -> None:
        holding = {(owned.key.group, owned.member) for owned in self._owned_partitions.all()}
        for member in leaving:
            if (member.group, member.member_id) in holding:
                self._changed.set()
                continue
            membership.leave(self._session, member.group, member.member_id)
            self._members.removed(member)

    def _return_records(self, leaving: list[Member]) -> None:
        """Queue groups: what leaving members hold goes to others at once."""
        for member in leaving:
            if member.anonymous_member:
                continue
            returned = 0
            for owned in self._owned_partitions.of_group(member.group):
                with owned.lock:
                    if owned.queue is not None:
                        gone = owned.queue.member_gone(member.member_id)
                        returned += len(gone)
                        if not self._members.works_on(member):
                            owned.unflushed += returned_moves(gone, wall_micros())
            if returned:
                self._members.wake_groups({member.group})
                log.info("member.records_returned", member=member.member_id, records=returned)

    # -- taking -----------------------------------------------------------------------------------

    def _take(self, wanted: dict[Key, _AssignedPartition]) -> None:
        awaited = [owned for owned in self._owned_partitions.all() if owned.state is _S.LEASING]
        for key, (topic, holder, mode, options) in wanted.items():
            if self._owned_partitions.get(key) is None:
                owned = OwnedPartition(key, topic, holder, mode=mode, options=options)
                owned.move(Cause.ASSIGNED)
                self._owned_partitions.add(owned)
        waiting = [owned for owned in self._owned_partitions.all() if owned.state is _S.LEASING]
        for group in {owned.key.group for owned in waiting}:
            # The watch comes before the try: a release in between would go unseen.
            leases.leases_of(self._session, group, self._changed)
        until = boot_seconds() + LEASING_S
        for owned in in_turns(waiting):
            if boot_seconds() > until:
                self._changed.set()
                break
            self._lease(owned)
        # After the leases: a pause that was there before one of them is met here.
        self._pauses.refresh(self._changed)
        if not self._gathered and any(owned.state is _S.FENCING for owned in awaited):
            self._gathered = True
            self._stopping.wait(BURST_S)
            self._changed.set()
            return
        self._gathered = False
        # Those of an earlier look too, if that one broke off in between.
        leased = [owned for owned in self._owned_partitions.all() if owned.state is _S.FENCING]
        if leased:
            self._takeover.run(leased, self._start_of)
            for one, some in by_mode(self._modes, leased):
                one.taken(some)

    def _lease(self, owned: OwnedPartition) -> None:
        owner = Owner(self._node, self._journal.shard, owned.member)
        owned.uncertain = True
        lease = leases.acquire(self._session, *owned.key, owner)
        owned.uncertain = False
        if lease is not None:
            owned.lease = lease
            owned.move(Cause.LEASED)
