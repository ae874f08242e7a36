"""One run of a maintenance job, at a time of the caller's choosing, as a process to be killed.

python -m tests.support.runs.maintenance_process retention --root DIR --now MICROS
    [--no-grace] [options of the job, as --crash-at retention.planned]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs import compaction, metrics, retention
from jobs.command_line.maintenance import Run
from lakequeue.steps import arm
from queue_tables.root import QueueRoot
from tests.support.forking.forked import Forked

JOBS: dict[str, tuple[Callable[[], argparse.ArgumentParser], Run]] = {
    "compaction": (compaction.options, compaction.compact),
    "metrics": (metrics.options, metrics.measure),
    "retention": (retention.options, retention.retain),
}


def run_compaction(root: QueueRoot, now: int, **options: Any) -> dict[str, Any]:
    """One run in this process; `options` as the job has them, but any `grace_hours`."""
    return _run("compaction", root, now, options)


def run_metrics(root: QueueRoot, now: int, **options: Any) -> dict[str, Any]:
    """One run in this process."""
    return _run("metrics", root, now, options)


def run_retention(root: QueueRoot, now: int, **options: Any) -> dict[str, Any]:
    """One run in this process."""
    return _run("retention", root, now, options)


def _run(job: str, root: QueueRoot, now: int, options: dict[str, Any]) -> dict[str, Any]:
    parser_of, run = JOBS[job]
    args = parser_of().parse_args([])
    assert options.keys() <= vars(args).keys(), options
    vars(args).update(options)
    return run(root, args, now)


def start(job: str, root: QueueRoot, now: int, *args: str) -> subprocess.Popen[bytes]:
    """A process that runs once; exit code 0, or -9 if it was killed at a step."""
    project = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-m", __spec__.name, job, "--root", root.uri, "--now", str(now)]
    return Forked([*command, *args], cwd=project, stdout=subprocess.DEVNULL)


def main() -> int:
    """Run once, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--now", type=int, required=True)
    parser.add_argument("--no-grace", action="store_true", help="replaced files go at once")
    given, rest = parser.parse_known_args()
    parser_of, run = JOBS[given.job]
    args = parser_of().parse_args(rest)
    if given.no_grace:
        args.grace_hours = 0
    arm(args.crash_at)
    sys.stdout.write(json.dumps(run(QueueRoot.existing(args.root), args, given.now)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
