"""What is checked before any child is started: one error that says what to do, nothing begun."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from coordination.zookeeper.session import Session
from lakequeue.clock import boot_seconds
from lakequeue.errors import (
    AlreadyRunning,
    CoordinationForbidden,
    CoordinationUnavailable,
    PortInUse,
    RootUnusable,
    StartFailed,
)
from lakequeue.processes.folders import local_root, make_private, private_folder
from lakequeue.settings import CoordinationSettings

_HANDOVER_S = 5.0
"""How long a port may stay taken by the dying children of a supervisor that was killed."""

_ANSWER_S = 5.0
"""How long an ensemble may take to answer: one that has lost a server elects within 2 s."""


def default_work_dir(root: str) -> Path:
    """Local disk for logs and checkpoints: inside a local root, else one folder per root URI."""
    folder = local_root(root)
    if folder is not None:
        return folder / "_work"
    digest = hashlib.sha256(root.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"lakequeue-{os.getuid()}-{digest}"


def make_work_dir(work_dir: Path) -> None:
    """Create the folder and its `logs`, and try a write. Raises `RootUnusable`."""
    try:
        if work_dir.parent == Path(tempfile.gettempdir()):
            private_folder(work_dir)
        make_private(work_dir)
        (work_dir / "logs").mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=work_dir):
            pass
    except OSError as problem:
        raise RootUnusable(
            f"{work_dir} cannot be written: {problem.strerror or problem}",
            hint="choose another folder with --root, or fix its owner and mode "
            f"(ls -ld {work_dir.parent})",
        ) from problem


def zookeeper_password(work_dir: Path) -> Path:
    """The file of the password for servers of our own; made with a new one if it is not there."""
    path = work_dir / "zookeeper-password"
    if path.exists():
        return path
    # Whole or not there, also on a full disk: an empty one would lock everybody out.
    with tempfile.NamedTemporaryFile("w", dir=work_dir, prefix=".password-") as new:
        new.write(f"{secrets.token_urlsafe(32)}\n")
        new.flush()
        os.fsync(new.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(new.name, path)
    return path


def check_answers(
    zookeeper: str, settings: CoordinationSettings, wait_s: float = _ANSWER_S
) -> None:
    """Return when the ensemble at `host:port,…` answers, and lets us in. Raises `StartFailed`."""
    try:
        session = Session(zookeeper, "preflight", "preflight", settings)
        session.start(wait_s)
    except ValueError as problem:
        raise StartFailed(
            f"{zookeeper!r} does not name a ZooKeeper: {problem}",
            hint="--zookeeper host:port,host:port,…",
        ) from problem
    except (CoordinationForbidden, CoordinationUnavailable) as problem:
        raise StartFailed(problem.detail, hint=problem.hint) from problem
    session.stop()


def take_over_coordination(work_dir: Path, names: Sequence[str]) -> None:
    """Bring what ZooKeeper keeps along when the number of servers has changed.

    `names` are the folders of the servers to be started. If others have been used later, their
    data is copied: what stands in no table (options of queue groups, webhooks, pauses) stays.
    """
    last = {p.parent.parent.name: _newest(p) for p in work_dir.glob("zookeeper*/data/version-2")}
    # Copies are as old as what they were made of: then a start was killed in the middle, maybe.
    newest = max(last, key=lambda name: (last[name], name not in names), default=None)
    if newest is None or newest in names:
        return
    for name in names:
        data = work_dir / name / "data" / "version-2"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(work_dir / newest / "data" / "version-2", data)


def _newest(folder: Path) -> float:
    return max((file.stat().st_mtime for file in folder.iterdir()), default=0.0)


class RootLock:
    """One supervisor for a root: an flock, which the kernel frees however its holder ends."""

    def __init__(self, work_dir: Path) -> None:
        self._path = work_dir / "up.lock"
        self._fd = -1

    def __enter__(self) -> RootLock:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 64).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise AlreadyRunning(
                f"another `lakequeue up` serves this root: pid {holder} holds {self._path}",
                hint=f"use that one, stop it (kill {holder}), or choose another --root",
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        self._fd = fd
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen there; connections that linger from an earlier one are no bar.

    Raises `PortInUse` when it can never be: the port needs rights, or the address is not ours.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except PermissionError as problem:
            raise PortInUse(
                f"port {port} may not be used by this user", hint="choose one above 1023"
            ) from problem
        except OSError:
            return False
    return True


def await_free_port(host: str, port: int, option: str, wait_s: float = _HANDOVER_S) -> None:
    """Return when the port is free. Raises `PortInUse` if somebody keeps it.

    The wait is for children of a supervisor that was killed a moment ago: the kernel has sent
    them their SIGKILL, and they need some milliseconds to be gone.
    """
    deadline = boot_seconds() + wait_s
    pause = threading.Event()
    while not port_is_free(host, port):
        if boot_seconds() >= deadline:
            raise PortInUse(
                f"port {port} on {host} is in use by another process",
                hint=f"stop it (ss -ltnp 'sport = :{port}' names it), or choose another {option}",
            )
        pause.wait(0.05)


def free_ports(host: str, taken: set[int], first: int, count: int) -> tuple[int, ...]:
    """`count` ports, none of which is in `taken`, where they are noted; `first`, unless it is 0."""
    found = [first] if first else []
    while len(found) < count:
        port = free_port(host)
        if port not in taken:
            taken.add(port)
            found.append(port)
    return tuple(found[:count])


def console_place(host: str, port: int, taken: set[int], *, may_change: bool) -> tuple[str, int]:
    """(host, port) of the console; if it `may_change`, a port in use is replaced by a free one."""
    if may_change and port and (port in taken or not port_is_free(host, port)):
        port = 0
    return host, free_ports(host, taken, port, 1)[0]
