"""`lakequeue upgrade`: raise a root of an earlier release to the format of this one."""

from __future__ import annotations

from typing import Annotated

import typer

from lakequeue.errors import NotReady, WrongUsage
from lakequeue.settings import Settings
from lakequeue_cli.audited import audited
from lakequeue_cli.options import AsJson
from lakequeue_cli.output import print_json
from lakequeue_cli.roots.processes import older_processes


def upgrade(
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only tell. This is the default.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it.")] = False,
    zookeeper: Annotated[
        str | None,
        typer.Option(help="host:port,… of the ensemble, to look for processes that are older."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Raise a root of an earlier release to the format of this one.

    This release reads and writes older roots as they are, beside processes of the release before.
    After --apply those do not start on the root any more. The queue may run meanwhile. If it is
    killed, say it again: each step that was done stays done.

    Exit codes: 0 nothing is to be done, or it is done; with --check 1 there is something to do;
    9 processes of an earlier release still run.
    """
    if check and apply:
        raise WrongUsage("--check and --apply exclude each other", hint="give one of them")
    # Loaded here: a machine with the SDK and CLI alone has no storage packages.
    from queue_tables.root import QueueRoot
    from queue_tables.schema.formats import NEWEST
    from queue_tables.upkeep.upgrade import changes_of
    from queue_tables.upkeep.upgrade import upgrade as apply_to

    given = {"root": root, "zookeeper": zookeeper}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    queue = QueueRoot.existing(settings.root, replica_too=True)
    steps = [change.what for change in changes_of(queue)]
    if apply and steps:
        late = older_processes(settings, queue.queue_id, NEWEST.number)
        if late:
            raise NotReady(
                f"processes of an earlier release run on {queue.uri}: {', '.join(late)}",
                hint="start them with this release, then say it again",
                stored="no",
            )
        with audited(queue, "upgrade", "") as told:
            done: list[str] = []
            told["steps"] = done
            apply_to(queue, lambda change: _tell(done, change.what, as_json=as_json))
    found = queue.format.number
    if as_json:
        said = {"root": queue.uri, "format": found, "newest": NEWEST.number, "steps": steps}
        print_json(said | {"applied": apply})
    elif not steps:
        print(f"{queue.uri} is of format {found}, the newest; nothing is to be done")
    elif apply:
        print(f"{queue.uri} is of format {NEWEST.number} now")
    else:
        print("\n".join(f"would {what}" for what in steps))
        print("nothing was changed; say it again with --apply")
    raise typer.Exit(1 if steps and not apply else 0)


def _tell(done: list[str], what: str, *, as_json: bool) -> None:
    done.append(what)
    if not as_json:
        print(f"done: {what}")
