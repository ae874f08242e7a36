"""Closing the session of a dead process at once, in place of waiting for its timeout.

ZooKeeper learns of a death by silence, so what a killed process held (its leases, its
leadership, its members) stays taken for a session timeout. Whoever knows the session's id and
password can end it; a process therefore leaves both in a local file, readable by its user only,
beside its own identity. Its supervisor, or the next process of the same name, closes the session
once that identity is proven dead. Ending a session by mistake would be no danger, only a delay:
what protects the tables is in the tables.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from coordination.zookeeper.credentials import client_options
from lakequeue.processes.folders import make_private
from lakequeue.processes.started import started_at
from lakequeue.settings import CoordinationSettings

CLIENT_LOG = logging.getLogger("lakequeue.kazoo")
"""The client library's own log. While ZooKeeper is away it would tell of each attempt to connect,
ten a second; `Session` says once that it is away, and once that it is back."""
if CLIENT_LOG.level == logging.NOTSET:
    CLIENT_LOG.setLevel(logging.ERROR)

Identity = tuple[int, bytes]
"""Session id and password."""


def process_identity() -> dict[str, Any]:
    """Which process this is: machine boot, pid namespace, pid and start time."""
    return {
        "machine": _read("/proc/sys/kernel/random/boot_id"),
        "pid_space": _link("/proc/self/ns/pid"),
        "pid": os.getpid(),
        "started": started_at(os.getpid()),
    }


def is_dead(identity: dict[str, Any]) -> bool:
    """Whether that process is proven to be gone: False when it cannot be told from here."""
    here = process_identity()
    if not here["machine"] or identity.get("machine") != here["machine"]:
        # Another machine, or this one before its last boot: no proof (and after a boot,
        # the session is about to expire anyway).
        return False
    if identity.get("pid_space") != here["pid_space"]:
        return False
    return started_at(int(identity.get("pid", 0))) != identity.get("started")


def remember(path: Path, hosts: str, identity: Identity) -> None:
    """Write this process's session into `path`, unless it stands there already."""
    record = process_identity() | {
        "hosts": hosts,
        "session": identity[0],
        "password": identity[1].hex(),
    }
    text = json.dumps(record)
    if path.exists() and path.read_text() == text:
        return
    make_private(path.parent)
    new = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
    new.replace(path)


def forget(path: Path) -> None:
    """Remove what `remember` wrote."""
    path.unlink(missing_ok=True)


def close_dead_session(
    path: Path, timeout_s: float = 2.0, settings: CoordinationSettings | None = None
) -> bool:
    """Close the session remembered in `path` if its process is dead; whether one was closed.

    Never raises for a missing or unreadable file or an ensemble that is away: the session then
    ends by its timeout.
    """
    try:
        record = json.loads(path.read_text())
        if not is_dead(record):
            return False
        identity = (int(record["session"]), bytes.fromhex(record["password"]))
        hosts = str(record["hosts"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    options = client_options(settings or CoordinationSettings())
    client = KazooClient(
        hosts=hosts, client_id=identity, timeout=timeout_s, logger=CLIENT_LOG, **options
    )
    try:
        client.start(timeout=timeout_s)
        closed = client.client_id is not None and client.client_id[0] == identity[0]
    except KazooTimeoutError:
        return False
    finally:
        client.stop()
        client.close()
    forget(path)
    return closed


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
