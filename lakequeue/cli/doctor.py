"""`lakequeue doctor`: looks at everything the queue needs, one line each, with what mends it.

Exit codes: 0 nothing failed (warnings are allowed), 1 something failed, 2 wrong usage.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from lakequeue.settings import Settings

_COLOURS = {"OK": "\033[32m", "WARN": "\033[33m", "FAIL": "\033[31m"}


def doctor(
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
    zookeeper: Annotated[
        str | None, typer.Option(help="host:port,… of an external ensemble.")
    ] = None,
    ingest_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the ingest service.")
    ] = None,
    consumer_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the consumer service.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Check Python, packages, Java, jars, storage, ZooKeeper, clocks and ports.

    Exit codes: 0 nothing failed, 1 something failed.
    """
    # Loaded here: the look at the packages must be able to say that one is missing.
    from lakequeue.supervisor.health import Level, examine

    given: dict[str, Any] = {"root": root, "zookeeper": zookeeper}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    findings = examine(
        settings,
        ingest_port=ingest_port or settings.ingest.port,
        consumer_port=consumer_port or settings.consumer.port,
    )
    failed = any(finding.level is Level.FAIL for finding in findings)
    if as_json:
        document = {"ok": not failed, "checks": [asdict(finding) for finding in findings]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        for finding in findings:
            sys.stdout.write(f"{_label(finding.level)} {finding.name:<10} {finding.detail}\n")
            if finding.fix:
                sys.stdout.write(f"{'':<16} → {finding.fix}\n")
    raise typer.Exit(1 if failed else 0)


def _label(level: str) -> str:
    if sys.stdout.isatty() and shutil.get_terminal_size().columns:
        return f"{_COLOURS[level]}{level:<4}\033[0m"
    return f"{level:<4}"
