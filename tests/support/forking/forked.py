"""Processes of services that tests start: `python -m <module>`, without importing it each time.

`Forked` is a `subprocess.Popen` whose process comes out of a fork server (`fork_server.py`). The
process is a child of this one, so everything else of `Popen` is as ever. What the interpreter or
the loader would have read of the environment at the start cannot be given to a process that has
started: then it is a process like any other.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.support.forking.fork_server import MOST_BYTES

T = TypeVar("T", str, bytes)
REPOSITORY = Path(__file__).parents[3]
_PR_SET_CHILD_SUBREAPER = 36
_READ_AT_START = (
    *("PYTHON", "LD_", "GLIBC_", "MALLOC_", "MIMALLOC_", "ARROW_", "OMP_"),
    *("LC_", "LANG", "TZ", "SSL_", "OPENSSL_"),
)
"""How variables begin that count when a process starts, or when a library is loaded."""
_AT_START = dict(os.environ)
"""What the fork server has, whatever a test sets here by the time it starts."""


class _ForkServer:
    """One for this process, and for as long as it."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._link: socket.socket | None = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forking.fork_server", str(theirs.fileno())],
                cwd=REPOSITORY,
                env=_AT_START,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

        def end() -> None:
            ours.close()
            process.wait(60)

        atexit.register(end)
        return ours

    def node(
        self, command: Sequence[str], cwd: str, environment: Mapping[str, str], fds: list[int]
    ) -> int:
        """The pid of a new process."""
        asked: dict[str, Any] = {
            "module": command[2],
            "arguments": list(command[3:]),
            "cwd": cwd,
            "environment": dict(environment),
        }
        with self._alone:
            os.umask(umask := os.umask(0))
            asked["umask"] = umask
            if self._link is None:
                self._link = self._start()
            # Whoever is left without a parent meanwhile is given to us: the new process is.
            _adopt(True)
            try:
                socket.send_fds(self._link, [json.dumps(asked).encode()], fds)
                return int(self._link.recv(MOST_BYTES))
            finally:
                _adopt(False)


def _adopt(on: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


_SERVER = _ForkServer()


def _is_plain(command: Any, environment: Mapping[str, str]) -> bool:
    """Whether a fork would be the same: our Python, `-m`, and nothing new to read at a start."""
    if list(command[:2]) != [sys.executable, "-m"] or not sys.platform.startswith("linux"):
        return False
    names = {n for n in environment.keys() | _AT_START.keys() if n.startswith(_READ_AT_START)}
    return all(environment.get(name) == _AT_START.get(name) for name in names)


def run(command: Sequence[str]) -> int:
    """Run it to its end, in the repository; the exit code, negative for a signal."""
    with Forked(command, cwd=REPOSITORY) as process:
        return process.wait()


class Forked(subprocess.Popen[T]):
    """`subprocess.Popen` of `[sys.executable, "-m", module, …]`."""

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        *rest: Any,
    ) -> None:
        given: Mapping[str, str] = os.environ if env is None else env
        if preexec_fn is not None or pass_fds or not _is_plain(args, given):
            plain: Any = super()
            plain._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        _, _, _, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[:9]
        wanted = [p2cread, c2pwrite, errwrite]
        fds = [own if fd == -1 else fd for own, fd in enumerate(wanted)]
        me: Any = self
        try:
            self.pid = _SERVER.node(args, str(cwd or Path.cwd()), given, fds)
            me._child_created = True
        finally:
            me._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
