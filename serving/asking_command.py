"""The command line of a process that asks the services: the console, a gateway."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from lakequeue.processes.logs import log_to_stderr
from lakequeue.settings import Settings
from serving import command_line
from serving.command_line import exiting, given

Own = Callable[[argparse.Namespace], dict[str, Any]]
"""What the process' own options set in its section."""


def parser_of(prog: str, description: str) -> argparse.ArgumentParser:
    """The options that all of them have."""
    parser = command_line.parser_of(prog, description)
    parser.add_argument("--ingest-url", help="ingest nodes, separated by commas")
    parser.add_argument("--consumer-url", help="consumer-service nodes, separated by commas")
    return parser


def settings_of(args: argparse.Namespace, section: str, own: dict[str, Any]) -> Settings:
    """The settings, command line first. Raises `InvalidSetting`."""
    parts = {
        section: given(args, "host", "port") | own,
        "ingest": {"url": args.ingest_url} if args.ingest_url else {},
        "consumer": {"url": args.consumer_url} if args.consumer_url else {},
    }
    said = {name: part for name, part in parts.items() if part}
    return Settings(**given(args, "root", "log_level"), **said)


def main(
    parser: argparse.ArgumentParser,
    section: str,
    own: Own,
    run: Callable[[Settings, int | None], None],
    argv: Sequence[str] | None = None,
) -> None:
    """Serve until SIGTERM; 3 as exit code when the port is not usable."""
    args = parser.parse_args(argv)
    with exiting():
        settings = settings_of(args, section, own(args))
        log_to_stderr(settings.log_level)
        run(settings, args.die_with_parent)
