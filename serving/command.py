"""The command line of a service: `python -m ingest`, `python -m consumer_service`."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable, Sequence
from typing import Literal

from lakequeue.processes.logs import log_to_stderr
from lakequeue.records import checked_name
from lakequeue.settings import Settings
from lakequeue.steps import arm
from serving.command_line import exiting, given, parser_of

Run = Callable[[Settings, str, int | None], None]
"""(settings, name of the node, parent to end with: a pid, 0 for the real one, None for none)"""


def parse(prog: str, description: str, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; what is not given is left to `LAKEQUEUE_*`, lakequeue.toml, defaults."""
    parser = parser_of(prog, description)
    parser.add_argument("--zookeeper", help="host:port,… of the ensemble")
    parser.add_argument("--node", help="name of this node, unique; default <service>-<host>")
    parser.add_argument("--url", help="base URL by which others reach this node")
    parser.add_argument("--crash-at", help="for fault tests: step[:count[:kill|stop]]")
    return parser.parse_args(argv)


def settings_of(args: argparse.Namespace, role: Literal["ingest", "consumer"]) -> Settings:
    """The settings, command line first. Raises `InvalidSetting`."""
    own = given(args, "host", "port", "url")
    names = ("root", "zookeeper", "node", "log_level", "crash_at")
    return Settings(**given(args, *names), **({role: own} if own else {}))


def main(
    prog: str,
    description: str,
    role: Literal["ingest", "consumer"],
    run: Run,
    argv: Sequence[str] | None = None,
) -> None:
    """Serve until SIGTERM; 3 as exit code when the root or the port is not usable."""
    args = parse(prog, description, argv)
    with exiting():
        settings = settings_of(args, role)
        node = checked_name(settings.node or f"{role}-{socket.gethostname()}", "node")
        arm(settings.crash_at)
        arm(None)  # only checked here: the worker arms itself
        log_to_stderr(settings.log_level)
        run(settings, node, args.die_with_parent)
