"""`lakequeue job run`: one of the jobs, in this process."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lakequeue.processes.programs import become
from lakequeue_cli.packages import NODE, SERVER, need

app = typer.Typer(help="Run a job: ordering, folding, maintenance.", no_args_is_help=True)


class Job(StrEnum):
    """A job that can be run alone; `driver` is order and offsets in one Spark driver.

    Maintenance jobs need no Spark. `stream_in` streams tables, Kafka and files in.
    """

    ORDER = "order"
    OFFSETS = "offsets"
    DRIVER = "driver"
    RETENTION = "retention"
    COMPACTION = "compaction"
    DEAD_LETTERS = "dead_letters"
    METRICS = "metrics"
    MIRROR = "mirror"
    FORK = "fork"
    STREAM_IN = "stream_in"

    @property
    def needs_spark(self) -> bool:
        """Whether pyspark has to be there."""
        return self in {Job.ORDER, Job.OFFSETS, Job.DRIVER, Job.STREAM_IN}


@app.callback()
def jobs() -> None:
    """Jobs that order records, fold group positions, and keep the tables small."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(context: typer.Context, job: Annotated[Job, typer.Argument()]) -> None:
    """Run a job until it is stopped. Further options go to it: `lakequeue job run order --help`
    lists none of them, `lakequeue job run order -- --help` does."""
    need(SERVER if job.needs_spark else NODE)
    become(f"jobs.{job.value}", *context.args)
