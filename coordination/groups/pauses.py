"""What of a group is paused, and which owners have heard of it.

    /groups/<group>/paused        persistent: the rules
    /groups/<group>/pause-heard/<journal shard>:<change>   ephemeral, of the node with that shard

A pause is a word of a person about now, not a position. From format 2 on a table has it too, and an
ensemble that was rebuilt from nothing is told from there before anybody joins the group.

Nobody delivers against it once it has been heard by all. The change is written first, then the
leases are read: who had one by then says that it has heard; who takes one later reads the rules
after it has its lease, and so finds the change, because a server shows each client a state at least
as new as that client's own last write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordination.groups.membership import group_path
from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable, UnknownGroup
from queue_rules.groups.pause_rules import NOTHING_PAUSED, PauseRules

_TRIES = 20


def read_pauses(
    session: Session, group: str, event: threading.Event | None = None
) -> tuple[PauseRules, int]:
    """The rules, and the number of the change that made them (0: there never was one).

    Numbers rise with each change, whatever becomes of the group meanwhile.
    """
    found = session.read(_path(session, group), event)
    if found is None:
        return NOTHING_PAUSED, 0
    return PauseRules.from_json(found[0]), int(found[1].mzxid)


def change_pauses(
    session: Session,
    group: str,
    paused: bool,
    topic: str | None = None,
    partitions: Collection[int] | None = None,
) -> tuple[PauseRules, int]:
    """Pause or resume; the rules and the number of the newest change. Raises `UnknownGroup`."""
    path = _path(session, group)
    for _ in range(_TRIES):
        found = session.read(path)
        before = NOTHING_PAUSED if found is None else PauseRules.from_json(found[0])
        after = before.changed(paused, topic, partitions)
        if after == before:
            return before, 0 if found is None else int(found[1].mzxid)
        try:
            if found is None:
                session.call(session.kazoo.create_async, path, after.to_json())
            else:
                version = found[1].version
                session.call(session.kazoo.set_async, path, after.to_json(), version)
        except NoNodeError:
            raise UnknownGroup(
                f"group {group!r} does not exist", hint="its first member creates it"
            ) from None
        except (BadVersionError, NodeExistsError):
            continue
        return read_pauses(session, group)
    raise CoordinationUnavailable(
        f"the pauses of group {group!r} keep changing", hint="try again", retry_after_s=1.0
    )


def publish_pauses(
    session: Session, group: str, newest: Callable[[], PauseRules], *, make: bool = True
) -> tuple[PauseRules, int]:
    """Let ZooKeeper say what `newest` says; the rules and the number of the newest change.

    `newest` is asked after ZooKeeper, so an older word never takes the place of a newer one. Raises
    `UnknownGroup` if there is no such group, or without `make` does nothing then.
    """
    path = _path(session, group)
    for _ in range(_TRIES):
        found = session.read(path)
        wanted = newest()
        there = NOTHING_PAUSED if found is None else PauseRules.from_json(found[0])
        if wanted == there:
            return wanted, 0 if found is None else int(found[1].mzxid)
        try:
            if found is None:
                session.call(session.kazoo.create_async, path, wanted.to_json())
            else:
                session.call(session.kazoo.set_async, path, wanted.to_json(), found[1].version)
        except NoNodeError:
            if not make:
                return NOTHING_PAUSED, 0
            raise UnknownGroup(
                f"group {group!r} does not exist", hint="its first member creates it"
            ) from None
        except (BadVersionError, NodeExistsError):
            continue
        return wanted, read_pauses(session, group)[1]
    raise CoordinationUnavailable(
        f"the pauses of group {group!r} keep changing", hint="try again", retry_after_s=1.0
    )


def begin_paused(session: Session, group: str, rules: PauseRules) -> None:
    """Before the group is made: it begins with these rules, unless it has some."""
    session.ensure(_path(session, group), rules.to_json())


def say_heard(session: Session, group: str, shard: str, change: int) -> None:
    """The owner that writes to `shard` keeps to this change from now on.

    Does nothing if the group has been deleted meanwhile.
    """
    folder = group_path(session, group, "pause-heard")
    try:
        session.call(session.kazoo.create_async, folder, b"")
    except NodeExistsError:
        pass
    except NoNodeError:
        return
    try:
        session.put_ephemeral(f"{folder}/{shard}:{change}", b"", makepath=False)
    except NoNodeError:
        return
    for name in session.children(folder):
        of, _, number = name.rpartition(":")
        if of == shard and int(number) < change:
            session.drop(f"{folder}/{name}")


def who_heard(
    session: Session, group: str, change: int, event: threading.Event | None = None
) -> set[str]:
    """The journal shards of the owners that keep to this change, or to a later one."""
    names = session.children(group_path(session, group, "pause-heard"), event)
    heard = (name.rpartition(":") for name in names)
    return {shard for shard, _, number in heard if int(number) >= change}


def _path(session: Session, group: str) -> str:
    return group_path(session, group, "paused")
