"""Groups and their members.

    /groups/<group>/config        persistent: mode and options, set by the first member
    /groups/<group>/members/<id>  ephemeral, of the node that the member joined through
    /groups/<group>/assignment    persistent: see `controller`
    /groups/<group>/leases/…      see `leases`

A member lives as long as its node's session *and* its own session timeout, which the node
enforces by `leave`. A node that dies takes its members with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from kazoo.exceptions import KazooException, NoNodeError

from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable, GroupActive, GroupMismatch, UnknownGroup
from lakequeue.records import checked_name
from queue_rules.groups.group_config import GroupConfig, check_config

_PARTS = ("members", "leases", "lease-epochs")
_TRIES = 20


@dataclass(frozen=True, slots=True)
class RegisteredMember:
    """One consumer. `member_id` is new at each join."""

    member_id: str
    topics: tuple[str, ...]
    node: str
    """The consumer-service node that it joined through and that leases for it."""
    mode: str = "stream"
    client: str = ""
    """How the consumer calls itself (host, application), for people."""

    def to_json(self) -> bytes:
        return orjson.dumps(self)

    @classmethod
    def from_json(cls, data: bytes) -> RegisteredMember:
        fields = orjson.loads(data)
        return cls(**(fields | {"topics": tuple(fields["topics"])}))


def group_path(session: Session, group: str, *parts: str) -> str:
    """Path of a node of the group. Raises `InvalidName`."""
    return session.path("groups", checked_name(group, "group"), *parts)


Begin = Callable[[str], None]
"""Called with the name of a group before it is made, so before anybody can be a member of it."""


def ensure_group(
    session: Session,
    group: str,
    mode: str,
    options: Mapping[str, Any] | None = None,
    begin: Begin = lambda _: None,
) -> GroupConfig:
    """Create the group if there is none; what it is. Raises `GroupMismatch`."""
    asked = GroupConfig(mode, dict(options or {}))
    found = group_config(session, group)
    if found is None:
        begin(group)
        make_group(session, group, asked)
        found = group_config(session, group)
    for part in _PARTS:
        session.ensure(group_path(session, group, part))
    present = asked if found is None else found
    check_config(group, present, asked)
    return present


def make_group(session: Session, group: str, config: GroupConfig) -> bool:
    """Put down what a new group is; whether it was this call that did."""
    at = time.time_ns() // 1_000
    said = {"mode": config.mode, "created_at": at, "options": config.options}
    return session.ensure(group_path(session, group, "config"), orjson.dumps(said))


def group_config(session: Session, group: str) -> GroupConfig | None:
    """Mode and options; None when there is no such group here."""
    found = session.read(group_path(session, group, "config"))
    if found is None:
        return None
    fields = orjson.loads(found[0])
    return GroupConfig(str(fields["mode"]), fields.get("options", {}))


def group_mode(session: Session, group: str) -> str | None:
    """ "stream" or "queue"; None when there is no such group here."""
    found = group_config(session, group)
    return None if found is None else found.mode


def groups(session: Session, event: threading.Event | None = None) -> list[str]:
    """Names of all groups; `event` is set when one is created or deleted."""
    return session.children(session.path("groups"), event)


def join(
    session: Session,
    group: str,
    member: RegisteredMember,
    options: Mapping[str, Any] | None = None,
    begin: Begin = lambda _: None,
) -> None:
    """Add `member`; it is added again by itself in every new session, until `leave`.

    `options` are those of a queue group. Raises `GroupMismatch`, `CoordinationUnavailable`.
    """
    path = group_path(session, group, "members", member.member_id)

    def make() -> None:
        for _ in range(_TRIES):
            ensure_group(session, group, member.mode, options, begin)
            try:
                session.put_ephemeral(path, member.to_json(), makepath=False)
            except NoNodeError:
                # The group was deleted in between: it is created again.
                continue
            return
        raise CoordinationUnavailable(f"group {group!r} is being deleted", retry_after_s=1.0)

    try:
        session.maintain(path, make)
    except CoordinationUnavailable:
        # The caller is told that it did not join, so it must not join later.
        session.drop(path)
        raise
    except GroupMismatch:
        session.drop(path)
        raise


def leave(session: Session, group: str, member_id: str) -> None:
    """Remove a member of this node, now or, if ZooKeeper is away, when it is back."""
    session.drop(group_path(session, group, "members", member_id))


def members(
    session: Session, group: str, event: threading.Event | None = None
) -> dict[str, RegisteredMember]:
    """The live members; `event` is set at the next join or leave. {} for an unknown group."""
    names = session.children(group_path(session, group, "members"), event)
    found = session.get_all([group_path(session, group, "members", name) for name in names])
    return {
        name: RegisteredMember.from_json(entry[0])
        for name, entry in zip(names, found, strict=True)
        if entry is not None
    }


def delete_group(session: Session, group: str) -> None:
    """Delete what ZooKeeper holds of the group, in one transaction.

    Its epochs go too: whoever leases in a group of the same name later starts above what the
    tables record. Raises `GroupActive` (it has members or leases), `UnknownGroup`.
    """
    for _ in range(_TRIES):
        top = group_path(session, group)
        paths = _tree(session, top)
        if not paths:
            raise UnknownGroup(
                f"group {group!r} does not exist", hint="its first member creates it"
            )
        busy = [p.rpartition("/")[2] for p in paths if p.startswith(f"{top}/members/")]
        leased = [p.rpartition("/")[2] for p in paths if p.startswith(f"{top}/leases/")]
        if busy or leased:
            raise GroupActive(
                f"group {group!r} has {len(busy)} members ({', '.join(busy) or 'none'}) and "
                f"{len(leased)} leases",
                hint="stop its consumers first",
            )
        results = session.transact(*(("delete", (path,)) for path in reversed(paths)))
        if not any(isinstance(result, KazooException) for result in results):
            return
    raise GroupActive(f"group {group!r} keeps changing", hint="stop its consumers first")


def _tree(session: Session, top: str) -> list[str]:
    """`top` and all below it, parents first; [] when there is no such node."""
    if session.read(top) is None:
        return []
    paths = [top]
    for path in paths:
        paths.extend(f"{path}/{name}" for name in session.children(path))
    return paths
