"""A backup is whole whenever it is taken, and comes back into an empty root only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobs.backup import backup, restore
from jobs.measuring.history import said
from lakequeue.clock import Micros, wall_micros
from lakequeue.errors import InvalidRequest, RootUnusable
from lakequeue.steps import Step
from lakequeue_cli.app import app
from queue_access.registry import entry_of_grant
from queue_access.rights import checked_grant
from queue_tables.entries import AccessTable
from queue_tables.group_settings import GroupSettings, Key, Setting
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import log_rows
from tests.support.data.replicas import (
    NOW,
    commit,
    fill,
    first_life,
    is_prefix,
    is_same,
    positions,
    second_life,
)
from tests.support.data.wall import HOUR
from tests.support.kinds import one_now
from tests.support.services.zookeeper import wait_for

PROJECT = Path(__file__).parents[4]
BY = "test"


@pytest.fixture
def source(tmp_path: Path) -> QueueRoot:
    root = QueueRoot.open(str(tmp_path / "queue"))
    first_life(root)
    grant(root, "ada")
    return root


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "backup")


@pytest.fixture
def fresh(tmp_path: Path) -> str:
    return str(tmp_path / "restored")


def grant(root: QueueRoot, who: str) -> None:
    entry = entry_of_grant(who, checked_grant("read", "topic", "*"))
    AccessTable(root).change(lambda _: [entry], BY)


def say(root: QueueRoot, *settings: Setting) -> None:
    GroupSettings(root).change(lambda _: settings, BY)


def said_of_groups(root: QueueRoot) -> dict[Key, tuple[str, bool]]:
    return {key: (one.body, one.deleted) for key, one in GroupSettings(root).read().items()}


def may(root: QueueRoot) -> list[tuple[str, bool]]:
    return [(one.name, one.deleted) for one in AccessTable(root).entries()]


def test_what_was_backed_up_comes_back_whole_in_a_queue_of_its_own(
    source: QueueRoot, target: str, fresh: str
) -> None:
    assert backup(source, target, BY)["records"] == 12
    second_life(source)
    grant(source, "grace")
    say(source, Setting("pause", "billing", "[]"), Setting("webhook", "audit", "{}"))
    again = backup(source, target, BY)
    assert (again["entries"], again["settings"]) == (1, 2)
    say(source, Setting("webhook", "audit", deleted=True))
    assert backup(source, target, BY)["settings"] == 1
    assert backup(source, target, BY)["commits"] == 0, "nothing has come since"
    report = restore(target, fresh, None, BY)
    restored = QueueRoot.open(fresh)
    assert restored.queue_id == report["queue_id"] != source.queue_id
    is_same(restored, source)
    assert may(restored) == may(source)
    assert said_of_groups(restored) == said_of_groups(source)
    # It goes on: offsets after the last one, and the backup can be restored again elsewhere.
    before = len(log_rows(restored))
    fill(restored, 9, 0, "z", [TopicStore(restored).get("late")])
    assert len(log_rows(restored)) == before + TopicStore(restored).get("late").partitions


def test_a_backup_taken_between_is_a_prefix_and_positions_are_not_ahead(
    source: QueueRoot, target: str, fresh: str
) -> None:
    backup(source, target, BY)
    second_life(source)
    restore(target, fresh, None, BY)
    is_prefix(QueueRoot.open(fresh), source)


def test_an_older_backup_over_a_newer_root_is_refused_and_changes_nothing(
    source: QueueRoot, target: str
) -> None:
    backup(source, target, BY)
    second_life(source)
    rows = log_rows(source)
    with pytest.raises(RootUnusable, match=r"records ordered, \d+ more than the backup: a restore"):
        restore(target, source.uri, None, BY)
    assert log_rows(source) == rows
    assert QueueRoot.existing(source.uri).queue_id == source.queue_id


def test_nothing_is_overwritten_neither_by_a_backup_nor_by_a_restore(
    source: QueueRoot, target: str, fresh: str, tmp_path: Path
) -> None:
    backup(source, target, BY)
    restore(target, fresh, None, BY)
    with pytest.raises(RootUnusable, match="overwrites nothing"):
        restore(target, fresh, None, BY)
    with pytest.raises(RootUnusable, match="is the backup itself"):
        restore(target, target, None, BY)
    with pytest.raises(RootUnusable, match="no replica any more, or never was"):
        backup(source, fresh, BY)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(RootUnusable, match="has files, and is no copy"):
        backup(source, str(tmp_path / "other"), BY)
    with pytest.raises(RootUnusable, match="has files, and is no copy"):
        restore(target, str(tmp_path / "other"), None, BY)
    # Another backup that goes on is none that a restore may take.
    second = str(tmp_path / "second")
    backup(QueueRoot.existing(target, replica_too=True), second, BY)
    with pytest.raises(RootUnusable, match="overwrites nothing"):
        restore(target, second, None, BY)


def test_a_backup_is_restored_as_of_any_time_with_groups_as_of_the_run_before(
    source: QueueRoot, target: str, fresh: str, tmp_path: Path
) -> None:
    orders = TopicStore(source).get("orders")
    backup(source, target, BY)
    fill(source, 2, hours_ago(), "y", [orders])
    rows, at = log_rows(source), wall_micros() + 2_000
    wait_for(lambda: wall_micros() > at + 2_000, "it is later")
    fill(source, 3, hours_ago(), "z", [orders])
    commit(source, orders, "billing", 5)
    backup(source, target, BY)
    report = restore(target, fresh, said(Micros(at)), BY)
    restored = QueueRoot.open(fresh)
    assert log_rows(restored) == rows, "to the record, though no run of the backup was then"
    assert {state.committed_offset for state in positions(restored).values()} == {1}
    assert report["groups_as_of"] < report["records_as_of"] == said(Micros(at))
    newest = str(tmp_path / "newest")
    restore(target, newest, None, BY)
    is_same(QueueRoot.open(newest), source)
    before = said(Micros(at - 3_600_000_000))
    with pytest.raises(InvalidRequest, match="do not reach back"):
        restore(target, str(tmp_path / "before"), before, BY)


def hours_ago() -> float:
    """Now, as `fill` wants it."""
    return (NOW - wall_micros()) / HOUR


@pytest.mark.parametrize(
    "crash",
    one_now(
        [
            Step.MIRROR_CUT,
            Step.MIRROR_TOPICS_COMMITTED,
            Step.MIRROR_DATA_WRITTEN,
            Step.MIRROR_ROWS_COMMITTED,
            Step.MIRROR_GROUPS_COMMITTED,
            Step.MIRROR_FENCED,
        ],
        Step.MIRROR_ROWS_COMMITTED,
    ),
)
def test_a_restore_that_was_killed_is_ended_by_the_same_call(
    source: QueueRoot, target: str, fresh: str, crash: str
) -> None:
    backup(source, target, BY)
    code = (
        "from lakequeue.steps import arm; from jobs.backup import restore;"
        f"arm({str(crash)!r}); restore({target!r}, {fresh!r}, None, 'test')"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, env=os.environ | {"PYTHONPATH": str(PROJECT)}
    )
    assert killed.returncode == -signal.SIGKILL
    restore(target, fresh, None, BY)
    is_same(QueueRoot.open(fresh), source)
    assert may(QueueRoot.open(fresh)) == may(source)


def test_the_commands_say_what_they_did_and_end_with_the_code_of_a_refusal(
    source: QueueRoot, target: str, fresh: str
) -> None:
    def output(*args: str) -> str:
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 0, done.output
        return done.output

    assert "12 records more" in output("backup", target, "--root", source.uri)
    assert "with 12 records" in output("restore", target, fresh)
    refused = CliRunner().invoke(app, ["restore", target, fresh])
    assert isinstance(refused.exception, RootUnusable)
    assert refused.exception.exit_code == 4
