"""The controller: one elected process says which member consumes which partition.

In queue groups it is a node that has a partition, for all members that joined there.

It writes `/groups/<group>/assignment`; nodes read it, give up what moved away, and lease what
they were given once it is free. A wrong or old assignment delays, it never breaks exclusivity:
that is the leases'. So the controller may be simple: on every change it thinks about everything
anew (and reads what has changed, see `group_cache`), and writes what differs, with a
compare-and-set on the node it has read.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordination.groups.group_cache import CachedGroup, GroupCache
from coordination.groups.large_nodes import packed, unpacked
from coordination.groups.membership import RegisteredMember, group_path, groups
from coordination.zookeeper.election import Election
from coordination.zookeeper.epochs import next_epoch
from coordination.zookeeper.notifications import NotificationListener
from coordination.zookeeper.session import Session
from lakequeue.clock import boot_seconds
from lakequeue.errors import LeadershipLost, StorageUnavailable
from queue_rules.groups.assignor import Assignment, Target, assign
from queue_rules.groups.node_assignor import assign_nodes

log = structlog.get_logger(__name__)

PartitionsOf = Callable[[list[str]], Iterable[tuple[str, str, int]]]
"""Topics → (topic, topic_id, partition) of those that exist."""

SETTLE_S = 0.02
"""Changes come in bursts (a node with ten members dies): they are answered once."""
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 5.0
UNREADABLE_S = 3.0
"""How long storage may be out of reach before the post is left to whoever can reach it."""


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """What the controller last said of a group."""

    version: int
    """Rises with every change; compare for being different, a rebuilt ensemble counts anew."""
    epoch: int
    """The controller's own."""
    members: Assignment

    def of(self, member_id: str) -> list[Target]:
        """The partitions of one member; of one node in a queue group."""
        return self.members.get(member_id, [])


def read_assignment(
    session: Session, group: str, event: threading.Event | None = None
) -> GroupAssignment:
    """The present assignment; version 0 and nobody before the first. `event` as elsewhere."""
    found = session.read(group_path(session, group, "assignment"), event)
    return _parse(b"" if found is None else found[0])


def _parse(data: bytes) -> GroupAssignment:
    if not data:
        return GroupAssignment(0, 0, {})
    fields = orjson.loads(unpacked(data))
    shares = {
        member: [Target(*target) for target in targets]
        for member, targets in fields["members"].items()
    }
    return GroupAssignment(fields["version"], fields["epoch"], shares)


class Looked:
    """The partitions of topics, looked up once in one look at all groups: a hundred groups on one
    topic are one request to storage, not a hundred."""

    def __init__(self, partitions_of: PartitionsOf) -> None:
        self._partitions_of = partitions_of
        self._found: dict[str, list[Target]] = {}

    def of(self, topics: Iterable[str]) -> list[Target]:
        """The partitions of those that exist."""
        wanted = list(topics)
        # One that was not there is asked for by the next group anew: it may have been made since,
        # and nobody tells of it once its first member has come.
        if new := [topic for topic in wanted if topic not in self._found]:
            for each in self._partitions_of(new):
                target = Target(*each)
                self._found.setdefault(target.topic, []).append(target)
        return [target for topic in wanted for target in self._found.get(topic, ())]


class Controller:
    """A candidate for the controller's post, and the controller while it leads.

    `partitions_of` is called from the controller's thread; what it raises is logged, and tried
    again with growing pauses. If storage stays out of reach, the controller resigns, and stands
    again a while later: the fault may be this node's alone.
    """

    def __init__(self, session: Session, partitions_of: PartitionsOf) -> None:
        self.election = Election(session, "controller")
        self._session = session
        self._partitions_of = partitions_of
        self._changed = session.waker()
        self._topics_listener: NotificationListener | None = None
        self._stopping = threading.Event()
        self.written = 0
        """Assignments that this process has written."""
        self._retry_s = FIRST_RETRY_S
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)

    def start(self) -> Controller:
        """Become a candidate."""
        self._topics_listener = NotificationListener(self._session, "topics", self._changed).start()
        self.election.start()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Resign and end."""
        self._stopping.set()
        self._changed.set()
        self.election.stop()
        if self._thread.is_alive():
            self._thread.join()
        self.election.stop()  # one that began meanwhile
        if self._topics_listener is not None:
            self._topics_listener.close()

    def look(self) -> None:
        """Look at everything now (topics have changed, say)."""
        self._changed.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self.election.wait_leading() and not self._lead(self.election.term):
                self.election.resign()
                if not self._stopping.wait(LAST_RETRY_S):
                    self.election = Election(self._session, "controller").start()

    def _lead(self, term: int) -> bool:
        """One term: until leadership ends or the process stops; False: storage is out of reach."""
        epoch: int | None = None
        unreadable_since: float | None = None
        seen = GroupCache(self._session, self._changed)
        while self.election.leads(term) and not self._stopping.is_set():
            self._changed.clear()
            try:
                if epoch is None:
                    epoch = self._take_epoch()
                self._assign_all(seen, epoch)
            except Exception as error:  # noqa: BLE001 - a controller that gives up stops every group
                log.warning("controller.failed", error=str(error), retry_in_s=self._retry_s)
                if isinstance(error, StorageUnavailable | OSError):
                    unreadable_since = unreadable_since or boot_seconds()
                    if boot_seconds() - unreadable_since > UNREADABLE_S:
                        return False
                self._stopping.wait(self._retry_s)
                self._retry_s = min(self._retry_s * 2, LAST_RETRY_S)
                continue
            self._retry_s, unreadable_since = FIRST_RETRY_S, None
            if self._changed.wait(max(0.0, seen.anew_at - boot_seconds())):
                self._stopping.wait(SETTLE_S)
        return True

    def _take_epoch(self) -> int:
        session = self._session
        paths = [group_path(session, group, "assignment") for group in groups(session)]
        written = [_parse(found[0]).epoch for found in session.get_all(paths) if found is not None]
        epoch = next_epoch(session, "controller", max(written, default=0))
        self.election.announce({"epoch": epoch})
        log.info("controller.elected", node=session.node, epoch=epoch)
        return epoch

    def _assign_all(self, group_cache: GroupCache, epoch: int) -> None:
        failure: Exception | None = None
        looked = Looked(self._partitions_of)
        for group, seen in group_cache.refresh(boot_seconds()).items():
            try:
                if (fields := self._assignment(seen, epoch, looked)) is not None:
                    self._write(group, seen.version, fields, group_cache)
            except LeadershipLost:
                raise
            except Exception as error:  # noqa: BLE001 - one group must not stop the others
                failure = failure or error
        if failure is not None:
            raise failure

    def _assignment(self, seen: CachedGroup, epoch: int, looked: Looked) -> dict[str, Any] | None:
        """What is to be written; None if it stands."""
        if seen.right_for is not None and seen.right_for == looked.of(seen.topics):
            return None
        last = _parse(seen.assignment)
        if last.epoch > epoch:
            raise LeadershipLost(f"controller epoch {epoch} is superseded by {last.epoch}")
        present = [RegisteredMember.from_json(data) for data in seen.members]
        seen.topics = sorted({topic for member in present for topic in member.topics})
        targets = looked.of(seen.topics)
        if any(member.mode == "queue" for member in present):
            share = assign_nodes(targets, _workers(present), last.members)
        else:
            wanted = {member.member_id: member.topics for member in present}
            share = assign(targets, wanted, last.members)
        if share == last.members:
            seen.right_for = targets
            return None
        if not self.election.trusted():
            return None
        shares = {member: [list(target) for target in owned] for member, owned in share.items()}
        return {"version": last.version + 1, "epoch": epoch, "members": shares}

    def _write(
        self, group: str, version: int | None, fields: dict[str, Any], group_cache: GroupCache
    ) -> None:
        kazoo, path = self._session.kazoo, group_path(self._session, group, "assignment")
        data = packed(orjson.dumps(fields))
        try:
            if version is None:
                self._session.call(kazoo.create_async, path, data)
                written = 0
            else:
                written = self._session.call(kazoo.set_async, path, data, version=version).version
        except (BadVersionError, NodeExistsError, NoNodeError):
            # Another controller has written, and it is seen there who leads; or the group was
            # deleted.
            group_cache.invalidate(group)
        except BaseException:
            # It may be written or not.
            group_cache.invalidate(group)
            raise
        else:
            group_cache.written(group, data, written)
            self.written += 1
            members = len(fields["members"])
            log.info("controller.assigned", group=group, version=fields["version"], members=members)


def _workers(present: Iterable[RegisteredMember]) -> dict[str, Counter[str]]:
    """Node → topic → members there that subscribe to it."""
    workers: dict[str, Counter[str]] = {}
    for member in present:
        workers.setdefault(member.node, Counter()).update(member.topics)
    return workers
