"""Debian's packages without installing them: fetched and unpacked, no root, no service."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_FETCH_S = 240


class NotAvailable(Exception):
    """It cannot be had on this machine; the message says why."""


def unpack(package: str, lists: Path, scratch: Path, *, needed: bool = False) -> Path:
    """A folder inside `scratch` with the package's files, as they would be below `/`.

    With `needed` also those of packages that it needs and this machine has not. `lists` is where
    lists of our own go, if the system's are old or missing: that needs neither root nor a change of
    the system's. Raises `NotAvailable`.
    """
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise NotAvailable(f"there is no {program}, and no {package} on this machine")
    try:
        _download(package, scratch, [], needed=needed)
    except NotAvailable:
        for part in ("lists/partial", "archives/partial"):
            (lists / part).mkdir(parents=True, exist_ok=True)
        own = [f"-oDir::State::lists={lists / 'lists'}", f"-oDir::Cache={lists}"]
        _apt(own, ["update"], scratch)
        _download(package, scratch, own, needed=needed)
    unpacked = scratch / "unpacked"
    for archive in sorted(scratch.glob("*.deb")):
        _run(["dpkg", "-x", str(archive), str(unpacked)], scratch)
    return unpacked


def _download(package: str, folder: Path, own: Sequence[str], *, needed: bool) -> None:
    names = {package}
    if needed:
        wanted = ["install", "--simulate", "--no-install-recommends", package]
        planned = _apt(own, wanted, folder)
        names |= {line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")}
    _apt(own, ["download", *sorted(names)], folder)


def _apt(own: Sequence[str], command: Sequence[str], folder: Path) -> str:
    quiet = ["-q", "-oAPT::Sandbox::User=root", "-oAcquire::Retries=1"]
    return _run(["apt-get", *quiet, *own, *command], folder)


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, check=True, timeout=_FETCH_S, capture_output=True, text=True
        )
    except subprocess.CalledProcessError as error:
        why = (error.stderr or error.stdout).strip().rpartition("\n")[2]
        raise NotAvailable(f"{' '.join(command)} failed: {why}") from error
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"{' '.join(command)} took longer than {_FETCH_S} s") from error
    return done.stdout
