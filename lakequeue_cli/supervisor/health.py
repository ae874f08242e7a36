"""What `lakequeue doctor` looks at: each look is a function that ends in one finding.

No look changes anything: a root that does not exist is not created, and the probe of a storage
removes what it wrote. In ZooKeeper the empty node `/lakequeue/doctor` stays.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lakequeue.clock import MAX_SKEW_S
from lakequeue.errors import LakequeueError, RootUnusable
from lakequeue.extras import pip_install
from lakequeue.processes.folders import local_root, nearest_existing
from lakequeue.processes.java import cache_dir, find_java
from lakequeue.settings import Settings
from lakequeue_cli.packages import SERVER
from lakequeue_cli.supervisor.preflight import port_is_free
from lakequeue_cli.supervisor.probes import http_status

_MIN_FREE_BYTES = 1 << 30
_CONNECT_S = 5.0


class Level(StrEnum):
    """How much a finding matters."""

    OK = "OK"
    WARN = "WARN"
    """The queue runs, or will: something is worth a look."""
    FAIL = "FAIL"
    """The queue will not run until this is mended."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's."""

    name: str
    level: Level
    detail: str
    fix: str = ""
    """The command, or the change, that mends it."""


def examine(settings: Settings, ingest_port: int, consumer_port: int) -> list[Finding]:
    """Every look, in an order in which a later one rarely fails for an earlier one's reason."""
    looks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("python", _python),
        ("packages", _packages),
        ("java", _java),
        ("jars", _jars),
        ("storage", lambda: _storage(settings.root)),
        ("order", lambda: _order(settings.root)),
        ("tables", lambda: _tables(settings.root)),
        ("zookeeper", lambda: _zookeeper(settings)),
        ("ports", lambda: _port("ingest", settings.ingest.host, ingest_port)),
        ("ports", lambda: _port("consumer", settings.consumer.host, consumer_port)),
    ]
    return [finding for name, look in looks for finding in _safely(name, look)]


def examine_tables(settings: Settings) -> list[Finding]:
    """The look at the tables alone."""
    return list(_safely("tables", lambda: _tables(settings.root)))


def _safely(name: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """A look that fails is a finding: the others are still worth having."""
    try:
        yield from look()
    except LakequeueError as error:
        yield Finding(name, Level.FAIL, error.detail, error.hint)
    except ImportError as error:
        yield Finding(name, Level.FAIL, str(error), "make setup")


def _python() -> Iterator[Finding]:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= (3, 14):
        detail = f"Python {found} is newer than what this release is tested on (3.11 to 3.13)"
        yield Finding("python", Level.WARN, detail, "make clean setup PYTHON=python3.13")
        return
    yield Finding("python", Level.OK, f"Python {found} at {sys.prefix}")


def _packages() -> Iterator[Finding]:
    missing = [name for name in SERVER if importlib.util.find_spec(name) is None]
    if missing:
        yield Finding(
            "packages",
            Level.FAIL,
            f"not installed: {', '.join(missing)}",
            f"make setup, or: {pip_install('all')}",
        )
        return
    yield Finding("packages", Level.OK, "storage, service and Spark packages are installed")


def _java() -> Iterator[Finding]:
    java = find_java()
    yield Finding("java", Level.OK, f"Java {java.major} at {java.home} ({java.source})")


def _jars() -> Iterator[Finding]:
    from lakequeue.processes.jars import JARS, cached_jars

    cached = cached_jars()
    if cached is None:
        folder = cache_dir(os.environ)
        detail = f"the {len(JARS)} Delta jars are not in {folder}; the first start fetches them"
        yield Finding("jars", Level.WARN, detail, f"{sys.executable} -m jobs.jars")
        return
    yield Finding("jars", Level.OK, f"{len(cached)} Delta jars in {cached[0].parent}")


def _storage(root: str) -> Iterator[Finding]:
    folder = local_root(root)
    if folder is None:
        yield from _remote_storage(root)
        return
    parent = nearest_existing(folder)
    if not parent.is_dir():
        fix = "choose another --root, or move that file away"
        yield Finding("storage", Level.FAIL, f"{parent} is a file, and no folder", fix)
        return
    if os.statvfs(parent).f_flag & os.ST_RDONLY:
        fix = "choose another --root, or mount that writable"
        yield Finding("storage", Level.FAIL, f"{parent} is on a read-only file system", fix)
        return
    if not os.access(parent, os.W_OK | os.X_OK):
        yield Finding(
            "storage",
            Level.FAIL,
            f"{parent} is not a folder that this user can write to",
            f"choose another --root, or: sudo chown {os.getuid()} {parent}",
        )
        return
    yield from _conditional_put(folder, parent)
    free = shutil.disk_usage(parent).free
    level = Level.OK if free >= _MIN_FREE_BYTES else Level.WARN
    fix = "" if level is Level.OK else f"free some space below {parent}"
    yield Finding("storage", level, f"{free / 2**30:.1f} GiB free at {parent}", fix)


def _conditional_put(folder: Path, parent: Path) -> Iterator[Finding]:
    from queue_tables.delta.store import open_store
    from queue_tables.root import QueueRoot, probe_storage

    if (folder / "_lakequeue").is_dir():
        # Nothing is created, and a damaged table is a finding of its own.
        queue = QueueRoot.existing(str(folder), replica_too=True)
        with tempfile.TemporaryDirectory(prefix=".lakequeue-doctor-", dir=folder) as scratch:
            probe_storage(open_store(scratch))
        yield Finding("storage", Level.OK, f"queue {queue.queue_id} at {folder}")
    else:
        with tempfile.TemporaryDirectory(prefix=".lakequeue-doctor-", dir=parent) as scratch:
            probe_storage(open_store(scratch))
        yield Finding(
            "storage", Level.WARN, f"no queue at {folder} yet", f"lakequeue up --root {folder}"
        )
    yield Finding("storage", Level.OK, f"{parent} supports atomic create")


def _remote_storage(root: str) -> Iterator[Finding]:
    from queue_tables.delta.store import open_store
    from queue_tables.root import probe_storage

    probe_storage(open_store(root))
    yield Finding("storage", Level.OK, f"{root} supports atomic create")


def _order(root: str) -> Iterator[Finding]:
    from jobs.measuring.order_health import look_at_order

    folder = local_root(root)
    if folder is not None and not (folder / "_lakequeue").is_dir():
        return  # no queue yet
    for said in look_at_order(root):
        yield Finding("order", Level.WARN if said.warns else Level.OK, said.detail, said.fix)


def _tables(root: str) -> Iterator[Finding]:
    from queue_tables.root import QueueRoot
    from queue_tables.schema.formats import advice_of
    from queue_tables.upkeep.health import look, table_paths

    try:
        queue = QueueRoot.existing(root, replica_too=True)
    except RootUnusable:
        return  # there is no queue yet, which the look at the storage has said
    if (advice := advice_of(queue.uri, queue.format)) is not None:
        yield Finding("tables", Level.WARN, advice, f"lakequeue upgrade --check --root {root}")
    found = look(queue)
    for trouble in found:
        level = Level.FAIL if trouble.stops else Level.WARN
        fix = trouble.remedy.replace("lakequeue repair", f"lakequeue repair --root {root}")
        yield Finding("tables", level, f"{trouble.table}: {trouble.what}", fix)
    if not found:
        count = len(table_paths(queue))
        detail = f"{count} tables are guarded, and as the queue left them"
        yield Finding("tables", Level.OK, detail)


def _zookeeper(settings: Settings) -> Iterator[Finding]:
    from coordination.zookeeper.session import Session

    if settings.zookeeper is None:
        yield Finding("zookeeper", Level.OK, "embedded: `lakequeue up` starts its own server")
        return
    session = Session(settings.zookeeper, "doctor", "doctor", settings.coordination)
    session.start(_CONNECT_S)
    try:
        skew_s = session.skew_s
    finally:
        session.stop()
    yield Finding("zookeeper", Level.OK, f"{settings.zookeeper} answers")
    off = f"this clock is {skew_s:+.2f} s off ZooKeeper's, {MAX_SKEW_S:g} s are allowed"
    if abs(skew_s) > MAX_SKEW_S:
        yield Finding("clock", Level.FAIL, off, "timedatectl set-ntp true, here or there")
    elif abs(skew_s) > MAX_SKEW_S / 5:
        yield Finding("clock", Level.WARN, off, "timedatectl set-ntp true, here or there")
    else:
        yield Finding("clock", Level.OK, off)


def _port(role: str, host: str, port: int) -> Iterator[Finding]:
    if port_is_free(host, port):
        yield Finding("ports", Level.OK, f"{role} port {port} on {host} is free")
    elif 200 in (http_status(f"{way}://{host}:{port}/healthz") for way in ("http", "https")):
        yield Finding("ports", Level.OK, f"{role} port {port} on {host}: a service answers there")
    else:
        yield Finding(
            "ports",
            Level.FAIL,
            f"{role} port {port} on {host} is in use by another program",
            f"ss -ltnp 'sport = :{port}' names it; or: lakequeue up --{role}-port OTHER",
        )
