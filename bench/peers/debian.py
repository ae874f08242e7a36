"""Programs of Debian's packages: what is on the machine, or what is unpacked below .venv/peers."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from bench.peers.processes import REPOSITORY
from tools.debian import NotAvailable, unpack

UNPACKED = REPOSITORY / ".venv/peers/debian"


def program(package: str, *patterns: str) -> Path:
    """The first file that one of the patterns names, on the machine or in the unpacked package.

    Patterns are relative to `/`. Raises `NotAvailable`.
    """
    target = UNPACKED / package
    for base in (Path("/"), target):
        if (found := _found(base, patterns)) is not None:
            return found
    UNPACKED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=UNPACKED) as scratch:
        whole = unpack(package, UNPACKED / "apt", Path(scratch), needed=True)
        _move_erlang(whole, target)
        shutil.rmtree(target, ignore_errors=True)
        whole.rename(target)
    if (found := _found(target, patterns)) is None:
        raise NotAvailable(f"Debian's package {package} has none of {', '.join(patterns)}")
    return found


def libraries(path: Path) -> dict[str, str]:
    """The environment in which an unpacked program finds its libraries."""
    if not path.is_relative_to(UNPACKED):
        return {}
    base = UNPACKED / path.relative_to(UNPACKED).parts[0]
    folders = [base / "usr/lib", *base.glob("usr/lib/*-linux-gnu")]
    return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


def _found(base: Path, patterns: tuple[str, ...]) -> Path | None:
    for pattern in patterns:
        for path in sorted(base.glob(pattern)):
            if os.access(path, os.X_OK):
                return path
    return None


def _move_erlang(whole: Path, target: Path) -> None:
    """Erlang's scripts name the folder that they were installed to."""
    for script in (*whole.glob("usr/lib/erlang/bin/*"), *whole.glob("usr/lib/erlang/erts-*/bin/*")):
        if script.is_file() and script.read_bytes().startswith(b"#!/bin/sh"):
            text = script.read_text()
            script.write_text(text.replace("=/usr/lib/erlang", f"={target}/usr/lib/erlang"))
