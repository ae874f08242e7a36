"""Prometheus and promtool from Debian's package, unpacked into a cache: no root, no service.

`python -m tools.prometheus` fetches it once and prints where its two programs are. The tests use
it, and so may you to watch `lakequeue up` (docs/operations.md).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from lakequeue.processes.java import cache_dir
from tools.debian import NotAvailable, unpack


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
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=cache) as scratch:
        fresh = unpack("prometheus", cache / "apt", Path(scratch))
        if not _complete(fresh):
            raise NotAvailable("the package prometheus does not hold prometheus and promtool")
        shutil.rmtree(unpacked, ignore_errors=True)
        fresh.rename(unpacked)


if __name__ == "__main__":
    try:
        print(programs())
    except NotAvailable as error:
        sys.exit(str(error))
