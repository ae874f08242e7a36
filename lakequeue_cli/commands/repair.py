"""`lakequeue repair`: undo what other engines did to the tables of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakequeue.errors import CorruptTable, UnknownTable
from lakequeue.settings import Settings
from lakequeue_cli.audited import audited
from lakequeue_cli.options import AsJson
from lakequeue_cli.output import harmless, print_json
from lakequeue_cli.progress import waiting

if TYPE_CHECKING:
    from queue_tables.upkeep.repair import Repair


def repair(
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="Only this table, relative to the root. May be given several times."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it. Without it, nothing changes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Undo what Spark, delta-rs or SQL has changed in the tables.

    Shows what is wrong with each table, and what would be done. With --execute it is done, in one
    commit for each table; the queue may run meanwhile. To delete records use `lakequeue erase`.

    Exit codes: 0 nothing was wrong, or it is repaired; 1 something cannot be brought back.
    """
    # Loaded here: a machine with the SDK and CLI alone has no storage packages.
    from queue_tables.root import QueueRoot
    from queue_tables.upkeep.health import table_paths
    from queue_tables.upkeep.repair import Repair, repair_table

    queue = QueueRoot.existing(Settings(**({"root": root} if root else {})).root, replica_too=True)
    paths = table_paths(queue)
    if unknown := sorted(set(table or ()) - paths.keys()):
        raise UnknownTable(
            f"there is no table {unknown[0]} in {queue.uri}",
            hint=f"tables are {', '.join(sorted(p for p in paths if '/' not in p))}, and shards"
            " such as inbox/node-1-…",
        )
    found: list[Repair] = []
    chosen = [*(table or paths)]
    with waiting("repairing" if execute else "looking at tables", len(chosen)) as show:
        for number, path in enumerate(chosen):
            show(number, path)
            try:
                found.append(repair_table(queue, path, paths[path], execute=execute))
            except FileNotFoundError:
                continue  # not made yet, or a shard that was removed meanwhile
            except CorruptTable as damage:
                # A shard without its first commit is being removed; no other table ever is.
                if not paths[path].sharded or queue.is_table(path):
                    found.append(Repair(path, lost=[f"{damage.detail}; {damage.hint}"]))
    if execute and any(one.done for one in found):
        with audited(queue, "repair", "") as told:
            told |= {one.table: one.steps for one in found if one.done}
    _show(found, execute=execute, as_json=as_json)
    raise typer.Exit(1 if any(one.lost for one in found) else 0)


def _show(found: list[Repair], *, execute: bool, as_json: bool) -> None:
    if as_json:
        tables = [
            {"table": one.table, "steps": one.steps, "lost": one.lost, "done": one.done}
            for one in found
            if one.steps or one.lost
        ]
        print_json({"execute": execute, "looked_at": len(found), "tables": tables})
        return
    verb = "done" if execute else "would"
    for one in found:
        for step in one.steps:
            # A step names who made the foreign commit: whatever that program calls itself.
            print(harmless(f"{one.table}: {verb}: {step}"))
        for lost in one.lost:
            print(harmless(f"{one.table}: lost: {lost}"))
    if not any(one.steps or one.lost for one in found):
        print(f"{len(found)} tables are as the queue left them")
    elif not execute and any(one.steps for one in found):
        print("nothing was changed; say it again with --execute")
