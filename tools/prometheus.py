"""Prometheus and promtool from Debian's package, unpacked into a cache: no root, no service.

`python -m tools.prometheus` fetches it once and prints where its two programs are. The tests use
it, and so may you to watch `lakequeue up` (docs/operations.md).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from lakequeue.processes.java import cache_dir

_FETCH_S = 240


class NotAvailable(Exception):
    """It cannot be had on this machine; the message says why."""


def programs() -> Path:
    """The folder with `prometheus` and `promtool`. Raises `NotAvailable`."""
    installed = shutil.which("prometheus"), shutil.which("promtool")
    if installed[0] and installed[1]:
        return Path(installed[0]).parent
    cache = cache_dir(os.environ) / "prometheus"
    unpacked = cache / "unpacked"
    if not _complete(unpacked):
        _fetch(cache, unpacked)
    return unpacked / "usr" / "bin"


def _complete(unpacked: Path) -> bool:
    return all((unpacked / "usr" / "bin" / name).exists() for name in ("prometheus", "promtool"))


def _fetch(cache: Path, unpacked: Path) -> None:
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise NotAvailable(f"there is no {program}, and no prometheus on PATH")
    download = cache / f"download-{os.getpid()}"
    shutil.rmtree(download, ignore_errors=True)
    download.mkdir(parents=True)
    try:
        package = _download(cache, download)
        fresh = download / "unpacked"
        _run(["dpkg", "-x", str(package), str(fresh)], download)
        if not _complete(fresh):
            raise NotAvailable(f"{package.name} does not hold prometheus and promtool")
        shutil.rmtree(unpacked, ignore_errors=True)
        fresh.rename(unpacked)
    finally:
        shutil.rmtree(download, ignore_errors=True)


def _download(cache: Path, folder: Path) -> Path:
    """The package, by the system's lists, or by lists of our own where it has none."""
    # Lists of our own need neither root nor a change of the system's.
    lists, archives = cache / "apt" / "lists", cache / "apt" / "archives"
    for path in (lists / "partial", archives / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    own = [f"-oDir::State::lists={lists}", f"-oDir::Cache={cache / 'apt'}"]
    quiet = ["-q", "-oAPT::Sandbox::User=root", "-oAcquire::Retries=1"]
    try:
        _run(["apt-get", *quiet, "download", "prometheus"], folder)
    except NotAvailable:
        _run(["apt-get", *quiet, *own, "update"], folder)
        _run(["apt-get", *quiet, *own, "download", "prometheus"], folder)
    return next(folder.glob("prometheus_*.deb"))


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, timeout=_FETCH_S, capture_output=True, text=True
        )
    except subprocess.CalledProcessError as error:
        why = (error.stderr or error.stdout).strip().rpartition("\n")[2]
        raise NotAvailable(f"{' '.join(command)} failed: {why}") from error
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"{' '.join(command)} took longer than {_FETCH_S} s") from error


if __name__ == "__main__":
    try:
        print(programs())
    except NotAvailable as error:
        sys.exit(str(error))
