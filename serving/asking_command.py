"""The command line of a process that asks the services: the console, a gateway."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from lakequeue.errors import LakequeueError
from lakequeue.processes.logs import log_to_stderr
from lakequeue.processes.programs import add_parent_option
from lakequeue.settings import Settings
from serving.process import EXIT_UNUSABLE, print_event

Own = Callable[[argparse.Namespace], dict[str, Any]]
"""What the process' own options set in its section."""


def parser_of(prog: str, description: str) -> argparse.ArgumentParser:
    """The options that all have; what is not given is left to `LAKEQUEUE_*`, lakequeue.toml."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--root", help="root URI or directory of the queue")
    parser.add_argument("--host", help="address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, help="port to listen on; 0 takes a free one")
    parser.add_argument("--ingest-url", help="ingest nodes, separated by commas")
    parser.add_argument("--consumer-url", help="consumer-service nodes, separated by commas")
    parser.add_argument("--log-level", help="debug, info, warning or error")
    add_parent_option(parser)
    return parser


def settings_of(args: argparse.Namespace, section: str, own: dict[str, Any]) -> Settings:
    """The settings, command line first. Raises `InvalidSetting`."""
    parts = {
        section: _given(args, "host", "port") | own,
        "ingest": {"url": args.ingest_url} if args.ingest_url else {},
        "consumer": {"url": args.consumer_url} if args.consumer_url else {},
    }
    given = _given(args, "root", "log_level")
    return Settings(**given, **{name: part for name, part in parts.items() if part})


def main(
    parser: argparse.ArgumentParser,
    section: str,
    own: Own,
    run: Callable[[Settings, int | None], None],
    argv: Sequence[str] | None = None,
) -> None:
    """Serve until SIGTERM; 3 as exit code when the port is not usable."""
    args = parser.parse_args(argv)
    try:
        settings = settings_of(args, section, own(args))
        log_to_stderr(settings.log_level)
        run(settings, args.die_with_parent)
    except LakequeueError as e:
        print_event("failed", **e.to_problem())
        sys.stderr.write(f"{e}\n")
        sys.exit(EXIT_UNUSABLE)


def _given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}
