"""`lakequeue erase`: remove what records say, everywhere, and leave a tombstone at each offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lakequeue.arguments import bytes_of
from lakequeue.clock import wall_micros
from lakequeue.errors import WrongUsage
from lakequeue.settings import Settings
from lakequeue_cli.audited import audited
from lakequeue_cli.options import AsJson
from lakequeue_cli.output import harmless, note, print_json
from lakequeue_cli.progress import waiting


def erase(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    where: Annotated[
        str | None,
        typer.Option(help="Which records: a predicate, as groups have: \"key = 'alice'\"."),
    ] = None,
    key_base64: Annotated[
        str | None,
        typer.Option(help="Only this key, as base64, if it is not text."),
    ] = None,
    key_hex: Annotated[str | None, typer.Option(help="Only this key, as hex digits.")] = None,
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be erased.")
    ] = False,
    delete_now: Annotated[
        bool,
        typer.Option(
            "--delete-now",
            help="Delete the replaced files at once: queries that read them now may fail.",
        ),
    ] = False,
    delete_unreadable: Annotated[
        bool,
        typer.Option(
            "--delete-unreadable",
            help="Also delete files that could not be read and are kept as bytes: they may have "
            "such records.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase key, value and headers of the records that match; their offsets stay, as tombstones.

    If you give several options, records must match all of them. Dead letters, rejected copies and
    the inbox are erased as well. Without --delete-now, the compaction job deletes the old files
    after its grace time; the report names them.

    Exit codes: 0 all are erased; 1 there are files that nobody can read and that may have such
    records: see --delete-unreadable.
    """
    # Loaded here: a machine with the SDK and CLI alone has no storage packages.
    from jobs.erase import erase as erase_records
    from queue_rules.predicates.evaluation import matching
    from queue_rules.predicates.expressions import And, Column, Compare, Condition, Op
    from queue_rules.predicates.parsing import parse
    from queue_tables.root import QueueRoot

    conditions: list[Condition] = [] if where is None else [parse(where, judge_times=True)]
    keys = (bytes_of("--key-base64", key_base64), bytes_of("--key-hex", key_hex))
    conditions += [Compare(Column("key"), Op.EQ, key) for key in keys if key is not None]
    if not conditions:
        raise WrongUsage(
            "neither --where nor a key says which records",
            hint='--where "partition = 0 AND offset = 7", or --key-base64 //4=',
        )
    condition = And(tuple(conditions))
    queue = QueueRoot.existing(Settings(**({"root": root} if root else {})).root)

    def run(*, dry: bool) -> dict[str, Any]:
        with waiting(f"searching for records of {topic}" if dry else "erasing"):
            return erase_records(
                queue,
                topic,
                lambda rows: matching(condition, rows),
                wall_micros(),
                dry_run=dry,
                delete_now=delete_now,
                delete_unreadable=delete_unreadable,
            )

    if not dry_run and not yes:
        found = run(dry=True)
        typer.confirm(
            f"Erase {found['records']} records of {topic}, {found['dead_letters']} dead letters and"
            f" {found['rejects']} rejected copies for good?{_and_files(found, delete_unreadable)}",
            abort=True,
        )
    if dry_run:
        report = run(dry=True)
    else:
        with audited(queue, "erase", topic) as told:
            report = run(dry=False)
            told |= {n: value for n, value in report.items() if isinstance(value, int)}
    if as_json:
        print_json(report | {"where": where, "dry_run": dry_run})
    else:
        for name, value in report.items():
            print(harmless(f"{name}: {value}"))
    if report["unreadable"]:
        note(
            f"{len(report['unreadable'])} files of the inbox could not be read and are kept as"
            " bytes in rejects: they may hold such records. Look into them (lakequeue rejects"
            " export --reason unreadable), or say it again with --delete-unreadable"
        )
        raise typer.Exit(0 if dry_run else 1)


def _and_files(found: Mapping[str, Any], wanted: bool) -> str:
    if not wanted:
        return ""
    return f" And {len(found['unreadable'])} files that cannot be read, with all that is in them?"
