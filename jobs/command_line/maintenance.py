"""What the maintenance jobs share: command line, exit codes, report. None of them needs Spark.

They take no lease: each of their commits is safe beside everybody else's, and beside another run of
the same job (decision 0009).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from jobs.command_line.options import Exit
from lakequeue.clock import Micros, wall_micros
from lakequeue.errors import Broken, LakequeueError, RootUnusable, WrongUsage
from lakequeue.processes.logs import log_to_stderr
from lakequeue.settings import Settings
from lakequeue.steps import arm
from queue_tables.root import QueueRoot

log = structlog.get_logger("maintenance")

Report = dict[str, Any]
Run = Callable[[QueueRoot, argparse.Namespace, Micros], Report]
"""(root, options, now) -> what was done, or would be."""

_FAILED = "failed"
_EXITS = (Exit.STOPPED, Exit.FAILED, Exit.USAGE, Exit.UNUSABLE)


def parser_of(prog: str, description: str, *, root: bool = True) -> argparse.ArgumentParser:
    """The options that every maintenance job has; without `root` it goes to the services alone."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog="exit codes: 0 done, "
        + ", ".join(f"{code.value} {code.name.lower()}" for code in _EXITS[1:])
        + ". Safe beside a running queue, and when started twice; killed, start it again.",
    )
    if root:
        parser.add_argument("--root", help="root URI or directory of the queue")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--json", action="store_true", help="the report as one JSON document")
    parser.add_argument("--log-level", help="debug, info, warning or error")
    parser.add_argument("--crash-at", help="for fault tests: step[:count[:kill|stop]]")
    return parser


def run_parts(parts: Mapping[str, Callable[[], Any]]) -> Report:
    """The report of each part; what is wrong with one table keeps nobody from the others."""
    report: Report = {}
    for name, run in parts.items():
        try:
            report[name] = run()
        except Exception as error:
            log.exception("maintenance.part_failed", part=name)
            report[name] = {_FAILED: str(error) or repr(error)}
    return report


def main_of(parser: argparse.ArgumentParser, run: Run, argv: Sequence[str] | None) -> int:
    """Parse, run once on the root, print the report; an `Exit` code."""

    def on_root(settings: Settings, args: argparse.Namespace, now: Micros) -> Report:
        return run(QueueRoot.existing(settings.root).verify_tables(), args, now)

    return run_job(parser, on_root, argv)


def run_job(
    parser: argparse.ArgumentParser,
    run: Callable[[Settings, argparse.Namespace, Micros], Report],
    argv: Sequence[str] | None,
) -> int:
    """Parse, run once, print the report; an `Exit` code."""
    args = parser.parse_args(argv)
    names = ("root", "log_level", "crash_at")
    given = {n: value for n in names if (value := getattr(args, n, None)) is not None}
    try:
        settings = Settings(**given)
        arm(settings.crash_at)
        log_to_stderr(settings.log_level)
        report = run(settings, args, wall_micros())
    except (Broken, RootUnusable) as error:
        sys.stderr.write(f"{error}\n")
        return Exit.UNUSABLE
    except WrongUsage as error:
        sys.stderr.write(f"{error}\n")
        return Exit.USAGE
    except LakequeueError as error:
        sys.stderr.write(f"{error}\n")
        return Exit.FAILED
    report = {"job": parser.prog, "dry_run": args.dry_run} | report
    say_report(report, as_json=args.json)
    failed = any(_has_failed(part) for part in report.values())
    return Exit.FAILED if failed else Exit.STOPPED


def say_report(report: Report, *, as_json: bool) -> None:
    """On stdout: one JSON document, or lines for people."""
    sys.stdout.write((json.dumps(report) if as_json else "\n".join(_lines(report))) + "\n")


def _has_failed(part: Any) -> bool:
    """Whether it, or a part of it, says so. (A topic may be called that, and then is no text.)"""
    if not isinstance(part, dict):
        return False
    return isinstance(part.get(_FAILED), str) or any(_has_failed(p) for p in part.values())


def _lines(report: Report, indent: str = "") -> list[str]:
    """The report for people: one `name: value` a line, nested ones indented."""
    lines: list[str] = []
    for name, value in report.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        elif isinstance(value, list):
            lines.append(f"{indent}{name}: {', '.join(map(str, value)) or 'none'}")
        else:
            lines.append(f"{indent}{name}: {value}")
    return lines
