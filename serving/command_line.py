"""What the command lines of all processes with a port have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakequeue.errors import LakequeueError
from lakequeue.processes.programs import add_parent_option
from serving.process import EXIT_UNUSABLE, print_event


def parser_of(prog: str, description: str) -> argparse.ArgumentParser:
    """The options that all have; what is not given is left to `LAKEQUEUE_*`, lakequeue.toml."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--root", help="root URI or directory of the queue")
    parser.add_argument("--host", help="address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, help="port to listen on; 0 takes a free one")
    parser.add_argument("--log-level", help="debug, info, warning or error")
    add_parent_option(parser)
    return parser


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


@contextmanager
def exiting() -> Iterator[None]:
    """An error of ours ends the process: 3 as exit code, said to the parent and to people."""
    try:
        yield
    except LakequeueError as e:
        print_event("failed", **e.to_problem())
        sys.stderr.write(f"{e}\n")
        sys.exit(EXIT_UNUSABLE)
