"""Leases: a partition of a group has one owner at a time, and each owner an epoch of its own.

    /groups/<group>/leases/<topic_id>:<partition>        ephemeral: who holds it, epoch
    /groups/<group>/lease-epochs/<topic_id>:<partition>  persistent: the last epoch given

Both change in one transaction. A lease is for exclusivity between well-behaved owners; a paused
one that wakes up late is stopped by the epoch in the tables. Errors:

- a lease is void once the session is LOST (`Lease.lost`); it is never taken again by itself;
- while ZooKeeper is away, `Lease.trusted` turns false at the latest when the session may have
  ended, and the owner stops delivering at once; the same lease goes on if the session survived;
- an acquisition whose answer is lost may have succeeded: the next `acquire` by the same owner
  finds its own node and takes it anew, under a higher epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from kazoo.exceptions import KazooException

from coordination.groups.membership import group_path
from coordination.zookeeper.epochs import following
from coordination.zookeeper.session import Session
from lakequeue.clock import boot_seconds
from lakequeue.records import Epoch

_TRIES = 20


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lease."""

    node: str
    shard: str
    """The owner's journal shard: where a taker commits the fence."""
    member: str


@dataclass(frozen=True, slots=True)
class LeaseEntry:
    """What others see of a lease."""

    owner: Owner
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as its holder has it."""

    session: Session
    group: str
    topic_id: str
    partition: int
    owner: Owner
    epoch: Epoch
    incarnation: int
    """The session's term in which it was taken."""
    counter_version: int
    """Version of the epoch counter's node: it changes with every acquisition by anybody."""

    def lost(self) -> bool:
        """Whether the session it belonged to is gone, and the lease with it."""
        return self.session.incarnation != self.incarnation

    def trusted(self) -> bool:
        """Whether it certainly is still held, now. When False: deliver nothing, confirm nothing.

        Ask after a commit returned, before its 200 is sent.
        """
        return self.session.trusted() and not self.lost()


def acquire(
    session: Session, group: str, topic_id: str, partition: int, owner: Owner, above: int = 0
) -> Lease | None:
    """Take the lease, under an epoch higher than `above` (what the tables record) and all before.

    None when another owner holds it. Raises `CoordinationUnavailable`; the group must exist.
    """
    for _ in range(_TRIES):
        term = session.incarnation
        entry = session.read(_lease_path(session, group, topic_id, partition))
        if entry is not None and not _is_mine(session, entry, owner):
            return None
        counter_path = _counter_path(session, group, topic_id, partition)
        counter = session.read(counter_path)
        if counter is None:
            session.ensure(counter_path, b"0")
            continue
        epoch = following(int(counter[0] or b"0"), above)
        lease_path = _lease_path(session, group, topic_id, partition)
        data = orjson.dumps({"owner": owner, "epoch": epoch})
        put = (
            ("create", (lease_path, data, None, True))
            if entry is None
            else ("set_data", (lease_path, data, entry[1].version))
        )
        raised = ("set_data", (counter_path, str(epoch).encode(), counter[1].version))
        results = session.transact(raised, put)
        if not _refused(results) and session.incarnation == term:
            # In another term it would count as lost at once, and stay behind: take it again.
            return Lease(
                session, group, topic_id, partition, owner, epoch, term, results[0].version
            )
    return None


def acquire_when_free(
    session: Session,
    group: str,
    topic_id: str,
    partition: int,
    owner: Owner,
    above: int,
    timeout_s: float,
    given_up: Callable[[], bool] = lambda: False,
) -> Lease | None:
    """`acquire`, waiting until the present holder lets go; None after `timeout_s` or `given_up`.

    `given_up` is asked whenever something changed (another assignment, say). To wait for many
    leases at once, use `owned` with an event.
    """
    deadline = boot_seconds() + timeout_s
    changed = session.waker()
    while not given_up():
        changed.clear()
        # The watch comes first: a release between a refused try and the watch would go unseen.
        leases_of(session, group, changed)
        lease = acquire(session, group, topic_id, partition, owner, above)
        left = deadline - boot_seconds()
        if lease is not None or left <= 0:
            return lease
        changed.wait(left)
    return None


def retake(lease: Lease, above: int) -> Lease | None:
    """The same lease under a higher epoch, when the tables turn out to record a higher one.

    None when it is not held any more.
    """
    if lease.lost():
        return None
    return acquire(lease.session, lease.group, lease.topic_id, lease.partition, lease.owner, above)


def release(lease: Lease) -> bool:
    """Let go; False when it was not held any more.

    The epoch counter's version is checked in the same transaction: it has changed if anybody took
    the lease since, so that a late release can never remove another owner's lease.
    Raises `CoordinationUnavailable`: then it may still be held, until the session ends.
    """
    if lease.lost():
        return False
    place = (lease.session, lease.group, lease.topic_id, lease.partition)
    results = lease.session.transact(
        ("check", (_counter_path(*place), lease.counter_version)),
        ("delete", (_lease_path(*place),)),
    )
    return not _refused(results)


def leases_of(
    session: Session, group: str, event: threading.Event | None = None
) -> dict[tuple[str, int], LeaseEntry]:
    """All leases of a group, by (topic_id, partition).

    `event`, if given, is set when one is taken or released, and when the connection changes.
    """
    names = session.children(group_path(session, group, "leases"), event)
    found = session.get_all([group_path(session, group, "leases", name) for name in names])
    leases: dict[tuple[str, int], LeaseEntry] = {}
    for name, entry in zip(names, found, strict=True):
        if entry is not None:
            topic_id, _, partition = name.rpartition(":")
            leases[topic_id, int(partition)] = _parse(entry[0])
    return leases


def _is_mine(session: Session, entry: tuple[bytes, Any], owner: Owner) -> bool:
    return session.owns(entry[1]) and _parse(entry[0]).owner == owner


def _parse(data: bytes) -> LeaseEntry:
    fields = orjson.loads(data)
    return LeaseEntry(Owner(**fields["owner"]), Epoch(fields["epoch"]))


def _refused(results: list[Any]) -> bool:
    return any(isinstance(result, KazooException) for result in results)


def _lease_path(session: Session, group: str, topic_id: str, partition: int) -> str:
    return group_path(session, group, "leases", f"{topic_id}:{partition}")


def _counter_path(session: Session, group: str, topic_id: str, partition: int) -> str:
    return group_path(session, group, "lease-epochs", f"{topic_id}:{partition}")
