"""What a scheduler calls by name out of the wheel: Databricks' `python_wheel_task`.

It calls a function without arguments, with the task's parameters in `sys.argv`, and only an
exception makes the task a failed one: what the jobs return as an exit code must become one. They
run within Databricks' own process, so none of them may end or replace it.
"""

from __future__ import annotations

import sys
from importlib import import_module

from lakequeue.processes.programs import packages_first


class JobFailed(RuntimeError):
    """A job ended with an exit code other than 0; what it said stands on stderr, above."""


def order() -> None:
    """Order records until the run is cancelled."""
    _run("jobs.order")


def offsets() -> None:
    """Fold group positions until the run is cancelled."""
    _run("jobs.offsets")


def driver() -> None:
    """Both in one Spark driver."""
    _run("jobs.driver")


def retention() -> None:
    """Remove what has expired."""
    _run("jobs.retention")


def compaction() -> None:
    """Merge small files, delete old ones."""
    _run("jobs.compaction")


def dead_letters() -> None:
    """Send dead records back."""
    _run("jobs.dead_letters")


def metrics() -> None:
    """Rates and lag of the hours that are over, into a table."""
    _run("jobs.metrics")


def mirror() -> None:
    """Copy a queue to another root, and go on where the last run ended."""
    _run("jobs.mirror")


def fork() -> None:
    """Make a queue of its own out of another one, as it is or was."""
    _run("jobs.fork")


def stream_in() -> None:
    """Stream a Delta table, Kafka or JSON files into a topic."""
    _run("jobs.stream_in")


def create_views() -> None:
    """Create the SQL views of a queue."""
    _run("pyspark_lakequeue.session.views")


def erase() -> None:
    """`lakequeue erase` with the task's parameters."""
    sys.argv[1:1] = ["erase"]
    _run("lakequeue_cli.app")


def _run(module: str) -> None:
    packages_first()
    try:
        code = import_module(module).main()
    except SystemExit as ended:  # argparse and typer end by it, also when all is well
        code = ended.code
    if code:
        raise JobFailed(f"{module} ended with {code}")
