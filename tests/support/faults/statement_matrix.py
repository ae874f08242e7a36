"""Cells of the matrix: what another engine does to a table, guarded or not, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakequeue.settings import Settings
from lakequeue_cli.supervisor.health import Level, examine_tables
from queue_tables.upkeep.health import look, table_paths
from queue_tables.upkeep.repair import repair_table
from tests.support.faults.foreign import unguarded
from tests.support.faults.queue_in_hand import QueueInHand

Act = Callable[[str], object]
"""Does something to the table in a folder; raises if it is refused."""


def cell(folder: Path, table: str, act: Act, *, guarded: bool) -> str:
    """Try it on a queue that runs; how it was refused, or "" if it landed.

    What follows is seen twice: the queue goes on running, and a copy of it is started anew, before
    anybody repairs it. Raises `AssertionError` if anything is lost, doubled, out of order or not
    named.
    """
    queue = QueueInHand(str(folder))
    path = queue.tables()[table]
    at = f"{queue.root.uri}/{path}" if guarded else unguarded(queue.root, path)
    refused = ""
    try:
        act(at)
    except Exception as error:  # noqa: BLE001 -- each engine has errors of its own
        refused = str(error) or type(error).__name__
    if guarded:
        assert look(queue.root) == []
    elif not refused:
        _must_be_named(queue, path)
    _survives(queue.restarted_at(f"{folder}-restarted"))
    _survives(queue)
    return refused


def _survives(queue: QueueInHand) -> None:
    """It goes on before and after a repair, and after a restart."""
    queue.goes_on()
    for one, declared in table_paths(queue.root).items():
        report = repair_table(queue.root, one, declared, execute=True)
        assert report.lost == [], report.lost
    assert look(queue.root) == []
    queue.goes_on()
    queue.restart()
    queue.goes_on()


def _must_be_named(queue: QueueInHand, path: str) -> None:
    """The doctor says in a sentence what happened to the table, and what to do."""
    findings = examine_tables(Settings(root=queue.root.uri))
    named = [f for f in findings if f.detail.startswith(f"{path}: ")]
    assert named, findings
    assert all(f.level is not Level.OK and "lakequeue repair" in f.fix for f in named), named
