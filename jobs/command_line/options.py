"""The command line of the jobs, and what their processes say of themselves."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from lakequeue.errors import RootUnusable
from lakequeue.processes.folders import make_private, private_folder
from lakequeue.processes.logs import log_to_stderr
from lakequeue.processes.parent import die_with_parent
from lakequeue.processes.programs import add_parent_option
from lakequeue.records import checked_name
from lakequeue.settings import Settings
from lakequeue.steps import arm
from queue_tables.delta.store import open_store


class Exit(IntEnum):
    """Exit codes of the jobs."""

    STOPPED = 0
    """Asked to stop, or all that was there is done (`--available-now`)."""
    FAILED = 1
    """Something went wrong, and stands on stderr; start it again."""
    USAGE = 2
    """The command line."""
    FENCED = 3
    """A newer leader leads; start it again, as a standby."""
    UNUSABLE = 4
    """The root, Java or ZooKeeper cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a job process was started with."""

    settings: Settings
    zookeeper: str
    node: str
    work_dir: Path
    available_now: bool
    dry_run: bool
    as_json: bool


def parse(prog: str, description: str, argv: Sequence[str] | None, role: str) -> JobOptions:
    """Parse the command line; exits with 2, or 0 for `--help`."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog="exit codes: "
        + ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in Exit),
    )
    parser.add_argument("--root", help="root URI or directory of the queue")
    parser.add_argument("--zookeeper", help="host:port,… of the ensemble")
    parser.add_argument("--node", help=f"name of this node; default {role}-<host>")
    parser.add_argument("--host", help="address of /healthz, /readyz and /metrics")
    parser.add_argument("--port", type=int, help="their port; 0 takes a free one")
    parser.add_argument("--work-dir", type=Path, help="local disk for checkpoints and state files")
    parser.add_argument("--log-level", help="debug, info, warning or error")
    parser.add_argument("--driver-memory", help="heap of the Spark driver, e.g. 1g")
    parser.add_argument(
        "--available-now", action="store_true", help="process what is there now, then end"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only show the backlog; needs only the root"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document, the report, instead of lines",
    )
    parser.add_argument("--crash-at", help="for fault tests: step[:count[:kill|stop]]")
    add_parent_option(parser)
    args = parser.parse_args(argv)
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent or None)
    names = ("root", "zookeeper", "node", "work_dir", "log_level", "crash_at")
    given: dict[str, Any] = {n: getattr(args, n) for n in names if getattr(args, n) is not None}
    if args.driver_memory:
        given["order"] = {"driver_memory": args.driver_memory}
    own = {n: getattr(args, n) for n in ("host", "port") if getattr(args, n) is not None}
    if own:
        given["driver"] = own
    settings = Settings(**given)
    if settings.zookeeper is None and not args.dry_run:
        parser.error("--zookeeper (or LAKEQUEUE_ZOOKEEPER) is needed: host:port")
    arm(settings.crash_at)
    log_to_stderr(settings.log_level)
    node = checked_name(settings.node or f"{role}-{socket.gethostname()}", "node")
    return JobOptions(
        settings,
        settings.zookeeper or "",
        node,
        Path() if args.dry_run else _work_dir(settings),
        args.available_now,
        args.dry_run,
        args.json,
    )


def _work_dir(settings: Settings) -> Path:
    """Local disk, never an object store: Spark's checkpoints of a term and the state files."""
    local = open_store(settings.root).local_path
    if settings.work_dir is not None:
        folder = settings.work_dir
    elif local is not None:
        folder = local / "_work"
    else:
        folder = Path(tempfile.gettempdir()) / f"lakequeue-{os.getuid()}"
    try:
        if settings.work_dir is None:
            private_folder(folder)
        make_private(folder)
    except OSError as error:
        raise RootUnusable(
            f"the work directory {folder} cannot be made: {error.strerror}",
            hint="give another one with --work-dir",
        ) from error
    return folder.absolute()


class StateFile:
    """`<work_dir>/driver-<node>.json`: what this process is doing, and the same on stdout, unless
    `quiet`.

    Thread-safe: each job of the process tells its own part.
    """

    def __init__(self, work_dir: Path, node: str, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._path = work_dir / f"driver-{node}.json"
        self._now: dict[str, Any] = {}

    def say(self, **state: Any) -> None:
        """Add to the state; a changed one is written atomically, and printed as one JSON line."""
        with self._lock:
            now = self._now | {"pid": os.getpid()} | state
            if now == self._now:
                return
            self._now = now
            temp = self._path.with_suffix(".tmp")
            temp.write_text(json.dumps(now))
            temp.rename(self._path)
            if not self._quiet:
                sys.stdout.write(json.dumps(now) + "\n")
                sys.stdout.flush()
