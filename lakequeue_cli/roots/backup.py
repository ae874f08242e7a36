"""`lakequeue backup` and `restore`: a copy of a queue elsewhere, and a queue out of it."""

from __future__ import annotations

from typing import Annotated

import typer

from lakequeue.settings import Settings
from lakequeue_cli.audited import audited, operator
from lakequeue_cli.options import AsJson
from lakequeue_cli.output import print_json
from lakequeue_cli.packages import NODE, need
from lakequeue_cli.progress import waiting


def backup(
    target: Annotated[str, typer.Argument(help="Folder or URI of the backup.")],
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a queue while it runs: topics, ordered records, groups, keys and grants.

    The first run copies everything, each later one what has come since. What it has copied is
    whole at any time. If it is killed, say it again. Whoever can read the backup can read every
    record: guard it as the root.

    Exit codes: 0 done; 4 there is something else at TARGET, or the root cannot be used.
    """
    need(NODE)
    from jobs.backup import backup as run
    from queue_tables.root import QueueRoot

    queue = QueueRoot.existing(Settings(**({"root": root} if root else {})).root, replica_too=True)
    with audited(queue, "backup", "") as told, waiting("copying"):
        report = run(queue, target, operator())
        told |= {"records": report["records"], "to": target}
    if as_json:
        print_json({"root": queue.uri, "target": target} | report)
    else:
        print(
            f"{target} has version {report['version']} of the log: {report['records']} records"
            f" more, {report['bytes_copied']} bytes copied"
        )


def restore(
    source: Annotated[str, typer.Argument(help="Folder or URI of the backup.")],
    root: Annotated[str, typer.Argument(help="Folder or URI of the new queue: empty.")],
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Records as of then (RFC 3339), groups as of the last run of `backup` before; "
            "default: all it has.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a queue out of a backup, at a root where there is nothing.

    It never overwrites: a root with a queue, be it older or newer, is refused. The backup stays as
    it is. If it is killed, say it again.

    Exit codes: 0 done; 4 there is something at ROOT, or no backup at SOURCE; 8 the backup does not
    reach back to that time.
    """
    need(NODE)
    from jobs.backup import restore as run
    from queue_tables.root import QueueRoot

    with waiting("copying"):
        report = run(source, root, as_of, operator())
    with audited(QueueRoot.existing(root), "restore", "") as told:
        told |= {"from": source}
    if as_json:
        print_json({"source": source, "root": root} | report)
    else:
        print(f"{root} is queue {report['queue_id']}, with {report['records']} records")
        print(f"start it: lakequeue up --root {root}")
