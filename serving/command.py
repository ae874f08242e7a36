"""The command line of a service: `python -m ingest`, `python -m consumer_service`."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

from lakequeue.errors import LakequeueError
from lakequeue.processes.logs import log_to_stderr
from lakequeue.processes.programs import add_parent_option
from lakequeue.records import checked_name
from lakequeue.settings import Settings
from lakequeue.steps import arm
from serving.process import EXIT_UNUSABLE, print_event

Run = Callable[[Settings, str, int | None], None]
"""(settings, name of the node, parent to end with: a pid, 0 for the real one, None for none)"""


def parse(prog: str, description: str, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; what is not given is left to `LAKEQUEUE_*`, lakequeue.toml, defaults."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--root", help="root URI or directory of the queue")
    parser.add_argument("--zookeeper", help="host:port,… of the ensemble")
    parser.add_argument("--node", help="name of this node, unique; default <service>-<host>")
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", type=int, help="port to listen on; 0 takes a free one")
    parser.add_argument("--url", help="base URL by which others reach this node")
    parser.add_argument("--log-level", help="debug, info, warning or error")
    parser.add_argument("--crash-at", help="for fault tests: step[:count[:kill|stop]]")
    add_parent_option(parser)
    return parser.parse_args(argv)


def settings_of(args: argparse.Namespace, role: Literal["ingest", "consumer"]) -> Settings:
    """The settings, command line first. Raises `InvalidSetting`."""
    given: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("root", "zookeeper", "node", "log_level", "crash_at")
        if getattr(args, name) is not None
    }
    names = ("host", "port", "url")
    own = {n: getattr(args, n) for n in names if getattr(args, n) is not None}
    if own:
        given[role] = own
    return Settings(**given)


def main(
    prog: str,
    description: str,
    role: Literal["ingest", "consumer"],
    run: Run,
    argv: Sequence[str] | None = None,
) -> None:
    """Serve until SIGTERM; 3 as exit code when the root or the port is not usable."""
    args = parse(prog, description, argv)
    try:
        settings = settings_of(args, role)
        node = checked_name(settings.node or f"{role}-{socket.gethostname()}", "node")
        arm(settings.crash_at)
        arm(None)  # only checked here: the worker arms itself
        log_to_stderr(settings.log_level)
        run(settings, node, args.die_with_parent)
    except LakequeueError as e:
        print_event("failed", **e.to_problem())
        sys.stderr.write(f"{e}\n")
        sys.exit(EXIT_UNUSABLE)
