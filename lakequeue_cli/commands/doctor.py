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
from lakequeue.wire import AdviceAnswer
from lakequeue_cli.options import ConsumerUrl, admin
from lakequeue_cli.output import harmless
from lakequeue_cli.progress import waiting

_COLOURS = {"OK": "\033[32m", "WARN": "\033[33m", "FAIL": "\033[31m"}


def doctor(
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
    zookeeper: Annotated[str | None, typer.Option(help="host:port,… of your own ensemble.")] = None,
    ingest_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the ingest service.")
    ] = None,
    consumer_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the consumer service.")
    ] = None,
    load: Annotated[
        bool,
        typer.Option(
            "--load", help="Check a running queue: say when to add consumers or partitions."
        ),
    ] = False,
    over_s: Annotated[
        float,
        typer.Option("--over", min=0.5, max=60.0, help="With --load: how many seconds to observe."),
    ] = 5.0,
    consumer_url: ConsumerUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Check Python, packages, Java, jars, storage, ZooKeeper, clocks and ports; or the load.

    Exit codes: 0 nothing failed, 1 something failed; with --load 0, whatever the advice.
    """
    if load:
        with admin(None, consumer_url) as asked, waiting(f"observing groups for {over_s:g} s"):
            answer = asked.advice(over_s)
        _show_load(answer, as_json=as_json)
        return
    # Loaded here: the look at the packages must be able to say that one is missing.
    from lakequeue_cli.supervisor.health import Level, examine

    given: dict[str, Any] = {"root": root, "zookeeper": zookeeper}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    with waiting("checking this machine"):
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
            said = harmless(finding.detail)
            sys.stdout.write(f"{_label(finding.level)} {finding.name:<10} {said}\n")
            if finding.fix:
                sys.stdout.write(f"{'':<16} → {harmless(finding.fix)}\n")
    raise typer.Exit(1 if failed else 0)


def _show_load(answer: AdviceAnswer, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(answer.model_dump_json(indent=2) + "\n")
        return
    for trend in answer.trends:
        # What the advice is about stands there once more, with what to do.
        level = "WARN" if trend.course in {"falling_behind", "stuck"} else "OK"
        sys.stdout.write(
            f"{_label(level)} {'load':<10} {trend.group} on {trend.topic}: "
            f"{trend.course.replace('_', ' ')}, lag {trend.lag} ({trend.lag_per_s:+g}/s), "
            f"{trend.in_per_s:g}/s in, {trend.out_per_s:g}/s out, {trend.members} consumers, "
            f"{trend.partitions} partitions\n"
        )
    for advice in answer.advice:
        sys.stdout.write(f"{_label('WARN')} {advice.add:<10} {advice.detail}\n")
        sys.stdout.write(f"{'':<16} → {advice.do}\n")
    if not answer.trends:
        sys.stdout.write(f"{_label('OK')} {'load':<10} no group has a partition\n")


def _label(level: str) -> str:
    if sys.stdout.isatty() and shutil.get_terminal_size().columns:
        return f"{_COLOURS[level]}{level:<4}\033[0m"
    return f"{level:<4}"
