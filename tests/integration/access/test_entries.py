"""The tables `access` and `audit`: several writers, every reader, whoever else looks."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import duckdb
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from lakequeue.errors import StorageUnavailable
from lakequeue_cli.app import app
from queue_access.audit_line import Line
from queue_access.keys import new_key
from queue_access.registry import LOCKED, Entry, Registry, entry_of_grant, entry_of_key
from queue_access.rights import checked_grant
from queue_tables import entries
from queue_tables.audit import MOST_KINDS, Audit
from queue_tables.entries import AccessTable, AccessWatch
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.access.locked import secret_of

ON = Entry(LOCKED, LOCKED)


def _said(entries: list[Entry], _registry: Registry) -> list[Entry]:
    return entries


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "queue"))


def test_a_root_without_the_table_is_not_locked_and_none_is_made_by_looking(
    root: QueueRoot,
) -> None:
    assert not AccessTable(root).locked
    assert not root.is_table("access")


def test_changes_of_several_writers_all_count(root: QueueRoot) -> None:
    def grant(number: int) -> None:
        one = entry_of_grant("ada", checked_grant("read", "topic", f"t{number}"))
        AccessTable(root).change(lambda _: [one], "test")

    threads = [threading.Thread(target=grant, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = AccessTable(root).registry().grants["ada"]
    assert sorted(one.pattern for one in found) == [f"t{number}" for number in range(6)]


def test_a_revoked_key_is_gone_at_every_reader_within_a_look(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "LOOK_EVERY_S", 0.01)
    _, key = new_key("ada")
    told: list[Registry] = []
    changed = threading.Event()

    def tell(registry: Registry) -> None:
        told.append(registry)
        changed.set()

    watch = AccessWatch(root, tell).start()
    writer = AccessTable(root)
    for wanted, there in (
        ([ON, entry_of_key(key)], 1),
        ([replace(entry_of_key(key), deleted=True)], 0),
    ):
        writer.change(partial(_said, wanted), "test")
        while len(told[-1].keys) != there or not told[-1].locked:
            assert changed.wait(30)
            changed.clear()
    watch.stop()


def test_what_could_not_be_read_once_is_not_missed(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, key = new_key("ada")
    writer, reader = AccessTable(root), AccessTable(root)
    writer.change(lambda _: [ON, entry_of_key(key)], "test")
    assert reader.refresh()
    writer.change(lambda _: [replace(entry_of_key(key), deleted=True)], "test")

    def away(*_: object) -> NoReturn:
        raise StorageUnavailable("storage is away")

    with monkeypatch.context() as patched:
        patched.setattr(entries, "read_data_file", away)
        for _ in range(2):
            with pytest.raises(StorageUnavailable):
                reader.refresh()
    assert reader.refresh()
    assert reader.registry().keys == {}


def test_a_deleted_entry_comes_back_as_a_newer_version(root: QueueRoot) -> None:
    table = AccessTable(root)
    for deleted in (False, True, False):
        table.change(partial(_said, [replace(ON, deleted=deleted)]), "test")
        assert AccessTable(root).locked is not deleted
    assert [entry.version for entry in AccessTable(root).entries()] == [2]


def test_sql_sees_who_may_do_what_and_never_a_key(root: QueueRoot) -> None:
    text, key = new_key("ada")
    AccessTable(root).change(lambda _: [ON, entry_of_key(key)], "os:somebody")
    rows = duckdb.from_arrow(DeltaTable(f"{root.uri}/access").to_pyarrow_dataset())
    assert sorted(rows.project("kind, principal, changed_by").fetchall()) == [
        ("authentication", None, "os:somebody"),
        ("key", "ada", "os:somebody"),
    ]
    secret = secret_of(text).encode()
    files = [path for path in Path(root.uri).rglob("*") if path.is_file()]
    assert not [path for path in files if secret in path.read_bytes()]


def test_what_is_secret_is_its_owners_alone(root: QueueRoot) -> None:
    AccessTable(root).change(lambda _: [ON], "test")
    Audit(root, "node-1").changed(Line("ada", "PUT /v1/topics/{topic}", "done"))
    assert stat.S_IMODE(Path(root.uri).stat().st_mode) == 0o700
    for name in ("access", "audit"):
        for path in [Path(root.uri) / name, *(Path(root.uri) / name).rglob("*")]:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_nobody_else_can_write_into_an_opened_root_whatever_the_umask(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    opened.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        root = QueueRoot.open(str(opened))
        TopicStore(root).create("orders")
    finally:
        os.umask(before)
    for path in opened.rglob("*"):
        assert path.stat().st_mode & stat.S_IWOTH == 0, path


def test_changes_are_written_at_once_and_refusals_of_a_kind_as_one(root: QueueRoot) -> None:
    audits = [Audit(root, f"node-{number}") for number in (1, 2)]
    for audit in audits:
        audit.changed(Line("ada", "DELETE /v1/topics/{topic}", "done", "orders"))
        for _ in range(1_000):
            audit.refused(Line("", "GET /metrics", "refused", detail="unauthenticated"))
        for number in range(MOST_KINDS * 2):
            audit.refused(Line("", "GET /", "refused", address=f"192.0.2.{number}"))
        audit.close()
    rows = DeltaTable(f"{root.uri}/audit").to_pyarrow_table().to_pylist()
    done = [row for row in rows if row["outcome"] == "done"]
    assert [(r["principal"], r["name"], r["count"]) for r in done] == [("ada", "orders", 1)] * 2
    assert [r["count"] for r in rows if r["call"] == "GET /metrics"] == [1_000, 1_000]
    assert len(rows) <= 2 * (MOST_KINDS + 2)
    assert sum(r["count"] for r in rows) == 2 * (1 + 1_000 + MOST_KINDS * 2)


def test_what_an_operator_erases_is_in_the_audit_but_not_what_it_was(root: QueueRoot) -> None:
    TopicStore(root).create("orders")
    words = ["erase", "orders", "--where", "key = 'alice'", "--root", root.uri]
    for more in (["--dry-run"], ["--yes"]):
        done = CliRunner().invoke(app, [*words, *more])
        assert done.exit_code == 0, done.output
    [row] = DeltaTable(f"{root.uri}/audit").to_pyarrow_table().to_pylist()
    assert row["principal"].startswith("os:")
    assert (row["call"], row["name"], row["outcome"]) == ("lakequeue erase", "orders", "done")
    assert '"records":0' in row["after"]
    assert "alice" not in str(row)


def test_an_audit_that_was_removed_begins_anew(root: QueueRoot) -> None:
    audit = Audit(root, "node-1")
    audit.changed(Line("ada", "DELETE /v1/topics/{topic}", "done", "orders"))
    shutil.rmtree(Path(root.uri) / "audit")
    for name in ("bills", "tills"):
        audit.changed(Line("ada", "DELETE /v1/topics/{topic}", "done", name))
    rows = DeltaTable(f"{root.uri}/audit").to_pyarrow_table().to_pylist()
    assert sorted(row["name"] for row in rows) == ["bills", "tills"]


def test_an_audit_that_cannot_be_written_does_not_undo_what_it_tells_of(
    root: QueueRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(root.uri) / "audit").write_text("in the way")
    Audit(root, "node-1").changed(Line("ada", "DELETE /v1/topics/{topic}", "done", "orders"))
    assert (Path(root.uri) / "audit").is_file()
