"""`python -m sqs_gateway`: an SQS endpoint, for the services that it is told or finds."""

from __future__ import annotations

import argparse
from typing import Any

from serving.asking_command import main, parser_of
from sqs_gateway.server import run


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = parser_of("lakequeue run sqs", "An endpoint for clients of Amazon SQS.")
    made.add_argument("--url", help="base URL of the queues' URLs")
    return made


def own(args: argparse.Namespace) -> dict[str, Any]:
    """What its options set in `[sqs]`."""
    return {"url": args.url} if args.url is not None else {}


if __name__ == "__main__":
    main(parser(), "sqs", own, run)
