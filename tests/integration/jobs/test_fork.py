"""A fork is a queue of its own, as the other is or was; nothing that was erased comes back."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from jobs.fork import cut_at, main
from jobs.mirror_work import Mirror, promote
from jobs.options import Exit
from lakequeue.clock import wall_micros
from lakequeue.errors import InvalidRequest
from queue_tables.clean_up import clean_commits
from queue_tables.group_state import GroupOffsetsWriter, read_group_state
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from queue_tables.upkeep import checkpoint_table
from tests.support.compaction_process import run_compaction
from tests.support.erase_process import run_erase
from tests.support.order_process import Orderer
from tests.support.order_truth import Inbox, log_rows
from tests.support.replicas import NOW, commit, fill, first_life, is_same, second_life
from tests.support.zookeeper import wait_for


@pytest.fixture
def to(tmp_path: Path) -> str:
    return str(tmp_path / "fork")


def fold(root: QueueRoot, epoch: int) -> None:
    """What the offsets job does: positions into `group_offsets`."""
    reading = read_group_state(root)
    writer = GroupOffsetsWriter(root)
    writer.begin(epoch)  # type: ignore[arg-type]
    writer.commit(reading.states, reading.folded)


def a_moment() -> int:
    """A time after all that was committed and before all that will be, in whole milliseconds."""
    at = wall_micros() // 1_000 + 1
    wait_for(lambda: wall_micros() // 1_000 > at, "the clock goes on")
    return at * 1_000


def fork_as_of(source: QueueRoot, to: str, at: int) -> QueueRoot:
    """What the job does, without the five seconds that clocks may differ by."""
    copy = QueueRoot.replica(to, source)
    Mirror(source, copy, 1 << 30, partial(cut_at, at=at, skew_ms=0)).run()
    promote(copy, source.queue_id)
    return QueueRoot.existing(to)


def run(root: QueueRoot, to: str, *more: str) -> int:
    return main(["--root", root.uri, "--to", to, "--json", *more])


def test_a_fork_is_what_the_queue_is_and_both_go_on_by_themselves(
    root: QueueRoot, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = first_life(root)
    assert run(root, to, "--dry-run") == Exit.STOPPED
    assert json.loads(capsys.readouterr().out)["files_copied"] > 0
    assert not Path(to).exists()
    assert run(root, to) == Exit.STOPPED
    report = json.loads(capsys.readouterr().out)
    copy = QueueRoot.existing(to)
    assert copy.queue_id == report["queue_id"] != root.queue_id
    is_same(copy, root)
    fill(root, 2, 1, "xy", [orders])
    inbox = Inbox(copy, "elsewhere")
    inbox.commit(NOW, [{"topic_id": orders.topic_id, "value": b"mine", "message_id": "mine"}])
    Orderer(copy, 2).drain()
    values = {
        root: [r["value"] for r in log_rows(root)],
        copy: [r["value"] for r in log_rows(copy)],
    }
    assert b"mine" in values[copy]
    assert b"mine" not in values[root]
    assert b"x0" in values[root]
    assert b"x0" not in values[copy]
    assert run(root, to) == Exit.UNUSABLE, "it is a queue of its own now"


def test_a_fork_as_of_a_time_has_what_was_there_whatever_was_rewritten_since(
    root: QueueRoot, to: str
) -> None:
    orders = first_life(root)
    fold(root, 1)
    before = log_rows(root)
    at = a_moment()
    fill(root, 2, 3, "def", [orders, TopicStore(root).create("late")[0]])
    commit(root, orders, "billing", 6)
    fold(root, 2)
    run_compaction(root, NOW)
    checkpoint_table(root, "log")
    copy = fork_as_of(root, to, at)
    assert log_rows(copy) == before
    assert [topic.topic for topic in TopicStore(copy).list()] == ["orders", "visits"]
    (position,) = {state.committed_offset for state in read_group_state(copy).states.values()}
    assert position == 1
    fill(copy, 9, 0.5, "z", [orders])
    assert [r["offset"] for r in log_rows(copy) if r["value"] == b"z0"] == [4]


def test_what_was_erased_since_does_not_come_back(root: QueueRoot, to: str) -> None:
    first_life(root)
    fold(root, 1)
    at = a_moment()
    run_erase(root, "orders", "key = 'alice'", delete_now=False)
    with pytest.raises(InvalidRequest, match="erased after that time"):
        cut_at(root, at)
    assert not Path(to).exists()
    fork_as_of(root, to, a_moment())


def test_a_time_beyond_what_is_kept_and_one_to_come_are_refused(
    root: QueueRoot, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long_ago = a_moment()
    first_life(root)
    second_life(root)
    assert run(root, to, "--as-of", "2100-01-01T00:00:00Z") == Exit.USAGE
    assert run(root, to, "--as-of", "soon") == Exit.USAGE
    assert run(root, to, "--as-of", "2001-01-01T00:00:00Z") == Exit.FAILED
    assert "do not reach back to 2001-01-01" in capsys.readouterr().err
    checkpoint_table(root, "log")
    clean_commits(root, "log", NOW // 1_000 + 86_400_000)
    with pytest.raises(InvalidRequest, match="do not reach back"):
        cut_at(root, long_ago, skew_ms=0)
    assert not Path(to).exists()


def test_a_fork_that_was_broken_off_goes_on(root: QueueRoot, to: str) -> None:
    first_life(root)
    Mirror(root, QueueRoot.replica(to, root), 1 << 30).run()
    assert run(root, to) == Exit.STOPPED
    is_same(QueueRoot.existing(to), root)
