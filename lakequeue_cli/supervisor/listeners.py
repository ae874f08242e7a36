"""Whose a listening port is: somebody else may answer where a child of ours was meant to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_LISTENS = "0A"
"""The state of a socket that listens, as the kernel writes it."""


def listens(group: int, port: int) -> bool:
    """Whether a process of this group listens on the TCP port; True if the kernel does not say."""
    sockets = _listening(port)
    if sockets is None:
        return True
    return any(not sockets.isdisjoint(_sockets_of(pid)) for pid in _members(group))


def _listening(port: int) -> frozenset[str] | None:
    """The sockets that listen there, as links of descriptors name them."""
    found: set[str] = set()
    tables = 0
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines = (_PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]
            tables += 1
            for line in lines:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return frozenset(found) if tables else None


def _sockets_of(pid: int) -> Iterator[str]:
    """What the descriptors of a process lead to; nothing of one that has ended."""
    with contextlib.suppress(OSError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(descriptor.readlink())


def _members(group: int) -> Iterator[int]:
    """The processes of a group, its leader first."""
    yield group
    for folder in _PROC.iterdir():
        if folder.name.isdecimal() and (pid := int(folder.name)) != group:
            with contextlib.suppress(OSError):
                if os.getpgid(pid) == group:
                    yield pid
