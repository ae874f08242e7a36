"""`python -m sqs_gateway`: an SQS endpoint, for the services that it is told or finds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from lakequeue.errors import LakequeueError
from lakequeue.processes.logs import log_to_stderr
from lakequeue.processes.programs import add_parent_option
from lakequeue.settings import Settings
from serving.process import EXIT_UNUSABLE, print_event
from sqs_gateway.server import run


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; what is not given is left to `LAKEQUEUE_*`, lakequeue.toml, defaults."""
    parser = argparse.ArgumentParser(
        prog="lakequeue run sqs", description="An endpoint for clients of Amazon SQS."
    )
    parser.add_argument("--root", help="root URI or directory of the queue")
    parser.add_argument("--host", help="address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, help="port to listen on; 0 takes a free one")
    parser.add_argument("--url", help="base URL of the queues' URLs")
    parser.add_argument("--ingest-url", help="ingest nodes, separated by commas")
    parser.add_argument("--consumer-url", help="consumer-service nodes, separated by commas")
    parser.add_argument("--log-level", help="debug, info, warning or error")
    add_parent_option(parser)
    return parser.parse_args(argv)


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings, command line first. Raises `InvalidSetting`."""
    names = ("root", "log_level")
    given: dict[str, Any] = {n: getattr(args, n) for n in names if getattr(args, n) is not None}
    own = {n: getattr(args, n) for n in ("host", "port", "url") if getattr(args, n) is not None}
    parts = {"sqs": own}
    parts |= {"ingest": {"url": args.ingest_url}} if args.ingest_url else {}
    parts |= {"consumer": {"url": args.consumer_url}} if args.consumer_url else {}
    return Settings(**given, **{name: part for name, part in parts.items() if part})


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM; 3 as exit code when the port is not usable."""
    args = parse(argv)
    try:
        settings = settings_of(args)
        log_to_stderr(settings.log_level)
        run(settings, args.die_with_parent)
    except LakequeueError as e:
        print_event("failed", **e.to_problem())
        sys.stderr.write(f"{e}\n")
        sys.exit(EXIT_UNUSABLE)


if __name__ == "__main__":
    main()
