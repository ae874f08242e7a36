"""`lakequeue repair` on a root that others have damaged: told, done, and what it ends with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from queue_tables.delta.tail import commit_versions
from queue_tables.upkeep.health import look, table_paths
from tests.support.command import Done, lakequeue
from tests.support.faults.foreign import CALLS, unguarded
from tests.support.faults.queue_in_hand import QueueInHand


def command(root: str, *args: str) -> Done:
    return lakequeue("repair", "--root", root, *args)


def in_json(root: str, *args: str) -> tuple[int, dict[str, Any]]:
    done = command(root, "--json", *args)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def queue(tmp_path: Path) -> QueueInHand:
    return QueueInHand(str(tmp_path))


@pytest.fixture
def damaged(queue: QueueInHand) -> QueueInHand:
    """Rows deleted from `log` and doubled in a shard, a property in `group_offsets`."""
    paths = queue.tables()
    CALLS["delta-rs delete"](unguarded(queue.root, "log"))
    CALLS["delta-rs append"](unguarded(queue.root, paths["inbox"]))
    CALLS["delta-rs properties"](unguarded(queue.root, "group_offsets"))
    return queue


def versions(queue: QueueInHand) -> dict[str, int]:
    store = queue.root.store
    return {path: max(commit_versions(store, path)) for path in table_paths(queue.root)}


def test_a_sound_root_needs_nothing(queue: QueueInHand) -> None:
    before, uri = versions(queue), queue.root.uri
    done = command(uri)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{len(before)} tables are as the queue left them\n"
    assert in_json(uri, "--execute") == (
        0,
        {"execute": True, "looked_at": len(before), "tables": []},
    )
    assert versions(queue) == before


def test_without_execute_it_is_told_and_nothing_changes(damaged: QueueInHand) -> None:
    before, uri, inbox = versions(damaged), damaged.root.uri, damaged.tables()["inbox"]
    done = command(uri)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == "nothing was changed; say it again with --execute"
    assert {line.partition(":")[0] for line in lines[:-1]} == {"log", inbox, "group_offsets"}
    assert all(": would: " in line for line in lines[:-1])
    assert any("delta-rs" in line and "DELETE" in line for line in lines), lines
    code, report = in_json(uri)
    assert (code, report["execute"], report["looked_at"]) == (0, False, len(before))
    assert {t["table"]: (t["lost"], t["done"]) for t in report["tables"]} == {
        path: ([], False) for path in ("log", inbox, "group_offsets")
    }
    assert versions(damaged) == before


def test_with_execute_every_reader_sees_again_what_counts(damaged: QueueInHand) -> None:
    uri = damaged.root.uri
    records = sum(map(len, damaged.sent.values()))
    assert DeltaTable(f"{uri}/log").to_pyarrow_dataset().count_rows() == 0
    code, report = in_json(uri, "--execute", "--table", "log")
    assert (code, [t["table"] for t in report["tables"]]) == (0, ["log"])
    assert report["tables"][0]["done"]
    assert DeltaTable(f"{uri}/log").to_pyarrow_dataset().count_rows() == records
    assert {t.table for t in look(damaged.root)} == {damaged.tables()["inbox"], "group_offsets"}
    done = command(uri, "--execute")
    assert done.returncode == 0
    assert all(": done: " in line for line in done.stdout.splitlines())
    assert look(damaged.root) == []
    assert command(uri).stdout.endswith(" tables are as the queue left them\n")
    damaged.goes_on()


def test_what_is_lost_is_counted_and_the_exit_code_is_1(queue: QueueInHand) -> None:
    uri = queue.root.uri
    folder = unguarded(queue.root, "log")
    CALLS["delta-rs delete"](folder)
    CALLS["delta-rs vacuum"](folder)
    records = sum(map(len, queue.sent.values()))
    dry, report = in_json(uri)
    assert dry == 0, "what is lost is known when it was tried"
    assert "are deleted" in " ".join(report["tables"][0]["steps"])
    done = command(uri, "--execute")
    assert done.returncode == 1
    assert f"log: lost: {records} rows are in no file any more" in done.stdout.splitlines()
    assert look(queue.root) == []


def test_commits_that_are_gone_cannot_be_brought_back_and_the_others_are(
    damaged: QueueInHand,
) -> None:
    uri = damaged.root.uri
    log = Path(uri) / "rejects" / "_delta_log"
    (log / f"{0:020d}.json").unlink()
    code, report = in_json(uri, "--execute")
    said = {table["table"]: table for table in report["tables"]}
    assert code == 1
    assert "commits of the Delta log are missing" in said["rejects"]["lost"][0]
    assert said["log"]["done"]


def test_a_table_that_is_not_there_is_refused(queue: QueueInHand) -> None:
    done = command(queue.root.uri, "--table", "logs")
    assert done.returncode == 8
    assert "there is no table logs" in done.stderr
    assert "tables are group_history, group_offsets," in done.stderr
    nothing = command("/nowhere/at/all")
    assert nothing.returncode == 4
    assert "there is no queue at" in nothing.stderr
