"""What a process has to say of where it runs: its release, disks, memory, and certificate."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from cryptography import x509

from lakequeue import metrics
from lakequeue.metrics.declaring import Sample
from lakequeue.processes.folders import nearest_existing
from lakequeue.settings import Settings

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of version 2 and version 1. No limit is `max`, or a number beyond every machine."""


class HostSamples:
    """Asked by the metrics of each process."""

    def __init__(self, settings: Settings, root: Path | None) -> None:
        """`root`: the queue's folder, None if it is in an object store."""
        work = settings.work_dir or Path(tempfile.gettempdir())
        self._places = {"work": work} | ({} if root is None else {"root": root})
        self._certificate = settings.tls.cert
        self._release = (version("lakequeue"), platform.python_version())

    def samples(self) -> Iterator[Sample]:
        """All of it, as it is now."""
        yield Sample(metrics.every.BUILD, 1.0, self._release)
        for name, place in self._places.items():
            disk = shutil.disk_usage(nearest_existing(place))
            yield Sample(metrics.every.DISK_FREE, disk.free, (name,))
            yield Sample(metrics.every.DISK_SIZE, disk.total, (name,))
        yield Sample(metrics.every.MEMORY_LIMIT, memory_limit(_CGROUP_LIMITS))
        if self._certificate is not None:
            expires = expiry(self._certificate.read_bytes())
            yield Sample(metrics.every.CERTIFICATE, expires)


def expiry(pem: bytes) -> float:
    """Unix time at which the first certificate of a file expires. Pure. Raises ValueError."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def memory_limit(limits: tuple[Path, ...]) -> int:
    """Bytes: the smallest limit that is set, or the machine's memory."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *filter(None, map(_limit_of, limits))])


def _limit_of(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
