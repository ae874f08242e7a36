"""`python -m console`: the console, for the services that it is told or finds."""

from __future__ import annotations

import argparse
from typing import Any

from console.server import run
from serving.asking_command import main, parser_of


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = parser_of("lakequeue console", "A page to look at: what moves, and what is stuck.")
    made.add_argument("--read-only", action="store_true", help="show everything, change nothing")
    made.add_argument("--driver-url", help="endpoints of the drivers, separated by commas")
    made.add_argument("--sqs-url", help="SQS gateways, separated by commas")
    return made


def own(args: argparse.Namespace) -> dict[str, Any]:
    """What its options set in `[console]`."""
    found: dict[str, Any] = {"read_only": True} if args.read_only else {}
    if args.driver_url:
        found["drivers"] = args.driver_url.split(",")
    if args.sqs_url:
        found["gateways"] = args.sqs_url.split(",")
    return found


if __name__ == "__main__":
    main(parser(), "console", own, run)
