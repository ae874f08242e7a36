"""`lakequeue run`: one role of a cluster, in this process, from a file of settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakequeue.processes.programs import become
from lakequeue.settings import CONFIG_VARIABLE, settings_file
from lakequeue_cli.packages import NODE, SERVER, need


class Role(StrEnum):
    """A process of a cluster. Of `driver` run two: one leads, the other stands by."""

    INGEST = "ingest"
    CONSUMER = "consumer"
    DRIVER = "driver"
    ORDER = "order"
    OFFSETS = "offsets"
    ZOOKEEPER = "zookeeper"
    CONSOLE = "console"
    SQS = "sqs"


MODULES = {
    Role.INGEST: "ingest",
    Role.CONSUMER: "consumer_service",
    Role.DRIVER: "jobs.driver",
    Role.ORDER: "jobs.order",
    Role.OFFSETS: "jobs.offsets",
    Role.ZOOKEEPER: "coordination.embedded",
    Role.CONSOLE: "console",
    Role.SQS: "sqs_gateway",
}
"""What each role runs, as `python -m`: the same as in `lakequeue up`."""
_NEEDS = {
    Role.INGEST: NODE,
    Role.CONSUMER: NODE,
    Role.DRIVER: SERVER,
    Role.ORDER: SERVER,
    Role.OFFSETS: SERVER,
    # The jars of ZooKeeper come with Spark.
    Role.ZOOKEEPER: ("kazoo", "pyspark"),
    Role.CONSOLE: NODE,
    Role.SQS: NODE,
}


def run(
    context: typer.Context,
    role: Annotated[Role, typer.Argument(help="`driver` runs both `order` and `offsets`.")],
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Settings file, for all processes; default lakequeue.toml."),
    ] = None,
) -> None:
    """Run one process of a cluster until it is stopped.

    Further options go to it: `lakequeue run ingest --config /etc/lakequeue.toml --node ingest-2`;
    `lakequeue run ingest -- --help` lists them. What differs between machines (`LAKEQUEUE_NODE`,
    `LAKEQUEUE_SERVER__NUMBER`) can stand in the environment.
    """
    _become(role, config, context.args)


def console(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings file; default lakequeue.toml.")
    ] = None,
) -> None:
    """Serve the console: a page that shows what moves and what is stuck.

    It finds the services as every client does. Further options go to it, as in `lakequeue console
    --port 0 --read-only`; `lakequeue console -- --help` lists them. `lakequeue up` starts one.
    """
    _become(Role.CONSOLE, config, context.args)


def _become(role: Role, config: Path | None, arguments: Sequence[str]) -> None:
    need(_NEEDS[role])
    if config is not None:
        os.environ[CONFIG_VARIABLE] = str(config.absolute())
        settings_file()
    become(MODULES[role], *arguments)
