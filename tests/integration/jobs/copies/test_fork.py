"""A fork is a queue of its own, as the other is or was; nothing that was erased comes back."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobs import fork as fork_job
from jobs.command_line.options import Exit
from jobs.copies.mirror_copy import Mirror, promote
from jobs.copies.source_snapshots import check_not_ahead, source_snapshot_at
from jobs.fork import main
from jobs.measuring.history import said, save_group_snapshot
from lakequeue.clock import wall_micros
from lakequeue.errors import InvalidRequest
from lakequeue.records import Epoch, Offset, Partition, Stamp
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.entries import AccessTable
from queue_tables.group_settings import GroupSettings, Setting
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.groups.history import read_group_snapshot
from queue_tables.groups.state import GroupOffsetsWriter, read_group_state
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import consumed_mark, sequence_mark
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from queue_tables.upkeep.clean_up import clean_commits
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.access.locked import Locks
from tests.support.data.order_truth import Inbox, log_rows
from tests.support.data.replicas import NOW, commit, fill, first_life, is_same, second_life
from tests.support.data.wall import HOUR
from tests.support.runs.erase_process import run_erase
from tests.support.runs.maintenance_process import run_compaction
from tests.support.runs.order_process import Orderer
from tests.support.services.zookeeper import wait_for


@pytest.fixture
def to(tmp_path: Path) -> str:
    return str(tmp_path / "fork")


def fold(root: QueueRoot, epoch: int) -> None:
    """What the offsets job does: positions into `group_offsets`."""
    reading = read_group_state(root)
    writer = GroupOffsetsWriter(root)
    writer.begin(epoch)  # type: ignore[arg-type]
    writer.commit(reading.states, reading.folded)


def say(root: QueueRoot, topic: Topic, kind: Kind, offset: int, **more: Any) -> None:
    """A fact about a record of a queue group."""
    fact = Fact(
        kind, "workers", topic.topic, topic.topic_id, Partition(0), 0, Epoch(3), Offset(offset),
        mode="queue", at=NOW, attempt=1, until=NOW, **more,
    )  # fmt: skip
    ShardWriter.create(root, "journal", "c").append(to_arrow([fact]), Stamp(NOW))


def a_moment() -> int:
    """A time after all that was committed and before all that will be, in whole milliseconds."""
    at = wall_micros() // 1_000 + 1
    wait_for(lambda: wall_micros() // 1_000 > at, "the clock goes on")
    return at * 1_000


def fork_as_of(source: QueueRoot, to: str, at: int) -> QueueRoot:
    """What the job does, without the five seconds that clocks may differ by."""
    copy = QueueRoot.replica(to, source)
    Mirror(source, copy, 1 << 30, partial(source_snapshot_at, at=at, skew_ms=0)).run()
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


def test_a_fork_is_as_locked_as_its_source_and_posts_to_no_webhook_of_it(
    root: QueueRoot, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first_life(root)
    Locks(root).lock()
    said_of_groups = [Setting("webhook", "audit", "{}"), Setting("pause", "billing", "[]")]
    GroupSettings(root).change(lambda _: said_of_groups, "test")
    assert run(root, to) == Exit.STOPPED
    report = json.loads(capsys.readouterr().out)
    assert (report["entries"], report["settings"]) == (3, 1)
    copy = QueueRoot.existing(to)
    assert AccessTable(copy).locked
    assert list(GroupSettings(copy).read()) == [("pause", "billing")]


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


@pytest.mark.parametrize("kind", [Kind.ACKED, Kind.DELIVERED, Kind.PARKED, Kind.DYING])
def test_a_fork_takes_no_group_that_knows_of_records_which_it_does_not_have(
    root: QueueRoot, kind: Kind
) -> None:
    """Acknowledged out of order, in flight, or resting: the position alone does not tell."""
    orders = first_life(root)
    say(root, orders, kind, 6)
    fold(root, 1)
    with pytest.raises(InvalidRequest, match="is at 7 of a partition that ends at 4"):
        source_snapshot_at(root, a_moment(), skew_ms=0)
    fill(root, 2, 1, "xyz", [orders])
    source_snapshot_at(root, a_moment(), skew_ms=0)


def test_a_fork_takes_no_dead_record_without_its_dead_letter(root: QueueRoot) -> None:
    orders = first_life(root)
    dead = TopicStore(root).create("orders.dlq", partitions=1)[0]
    say(root, orders, Kind.DEAD, 1, dead_letter="orders.dlq/0@0")
    fold(root, 1)
    with pytest.raises(InvalidRequest, match=r"stands at orders\.dlq/0@0, which is not there yet"):
        source_snapshot_at(root, a_moment(), skew_ms=0)
    fill(root, 2, 1, "x", [dead])
    source_snapshot_at(root, a_moment(), skew_ms=0)
    # Created again, and nobody knows which of the two it was.
    TopicStore(root).delete("orders.dlq")
    TopicStore(root).create("orders.dlq", partitions=1)
    source_snapshot_at(root, a_moment(), skew_ms=0)


def test_a_fork_takes_no_records_of_a_topic_that_it_does_not_have(root: QueueRoot) -> None:
    first_life(root)
    with pytest.raises(InvalidRequest, match=r"topic \w+ has records and is not there yet"):
        check_not_ahead({}, TableLog(root.store, "log").open(), {})


def test_what_was_erased_since_does_not_come_back(root: QueueRoot, to: str) -> None:
    first_life(root)
    fold(root, 1)
    at = a_moment()
    run_erase(root, "orders", "key = 'alice'", delete_now=False)
    with pytest.raises(InvalidRequest, match="erased after that time"):
        source_snapshot_at(root, at)
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
        source_snapshot_at(root, long_ago, skew_ms=0)
    assert not Path(to).exists()


def test_a_fork_that_was_broken_off_goes_on(root: QueueRoot, to: str) -> None:
    first_life(root)
    Mirror(root, QueueRoot.replica(to, root), 1 << 30).run()
    assert run(root, to) == Exit.STOPPED
    is_same(QueueRoot.existing(to), root)


LAST = NOW // HOUR * HOUR - 5 * HOUR
"""The beginning of an hour in the middle of the life of `long_ago`."""
THEN = LAST + HOUR // 2
KEPT = LAST - HOUR


@pytest.fixture
def long_ago(root: QueueRoot) -> QueueRoot:
    """`abc!` eight hours ago; it is put down where groups are; `de` before `THEN` and `f` after it.

    Hours are compacted, records erased, and no version of a table is of then.
    """
    orders = first_life(root)
    topic_id = orders.topic_id
    log = TableLog(root.store, "log").open()
    log.commit([Txn(consumed_mark("t", topic_id, 0, 0), 2), Txn(sequence_mark(topic_id, "p"), 7)])
    assert save_group_snapshot(root, KEPT, dry_run=False) is not None
    visits = TopicStore(root).get("visits")
    fill(root, 2, (NOW - THEN) / HOUR + 0.1, "de", [orders, visits])
    fill(root, 3, (NOW - THEN) / HOUR - 0.1, "f", [orders, TopicStore(root).create("late")[0]])
    commit(root, orders, "billing", 6)
    fold(root, 1)
    log.refresh()
    log.commit([Txn(consumed_mark("t", topic_id, 0, 0), 6), Txn(sequence_mark(topic_id, "p"), 9)])
    run_compaction(root, NOW)
    assert run_erase(root, "orders", "key = 'alice'")["records"] == 2
    return root


def instant_kept(root: QueueRoot) -> str:
    """The one instant, a little after the run began."""
    group_snapshot = read_group_snapshot(root, NOW)
    assert group_snapshot is not None
    assert KEPT <= group_snapshot.as_of < KEPT + HOUR // 2
    return said(group_snapshot.as_of)


def values(root: QueueRoot, topic: str, partition: int = 0) -> list[bytes | None]:
    rows = [r for r in log_rows(root) if (r["topic"], r["partition"]) == (topic, partition)]
    assert [r["offset"] for r in rows] == list(range(len(rows)))
    return [r["value"] for r in rows]


def test_any_time_can_be_gone_back_to_and_the_report_says_what_groups_are_as_of(
    long_ago: QueueRoot, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    orders, kept = TopicStore(long_ago).get("orders"), instant_kept(long_ago)
    assert run(long_ago, to, "--as-of", said(THEN)) == Exit.FAILED
    assert f"--as-of {kept} for the queue as it was then" in capsys.readouterr().err
    assert not Path(to).exists(), "it is never another instant than the one asked for, unsaid"
    back = ("--as-of", said(THEN), "--older-groups")
    assert run(long_ago, to, *back, "--dry-run") == Exit.STOPPED
    instants = {"records_as_of": said(THEN), "groups_as_of": kept}
    assert json.loads(capsys.readouterr().out).items() >= instants.items()
    assert run(long_ago, to, *back) == Exit.STOPPED
    report = json.loads(capsys.readouterr().out)
    assert report.items() >= instants.items()
    copy = QueueRoot.existing(to)
    assert values(copy, "orders") == [b"a0", b"b0", None, b"c0", b"d0", b"e0"]
    assert values(copy, "orders", 1) == [b"a1", b"b1", None, b"c1", b"d1", b"e1"]
    assert report["records"] == 6 * 2 + 6
    assert [topic.topic for topic in TopicStore(copy).list()] == ["orders", "visits"]
    (state,) = read_group_state(copy).states.values()
    assert (state.group, state.committed_offset) == ("billing", 1)
    marks = LogMarks(copy).read()
    assert marks[consumed_mark("t", orders.topic_id, 0, 0)] == 2
    assert marks[sequence_mark(orders.topic_id, "p")] == 9, "no number is given twice"
    fill(copy, 9, 0.5, "z", [orders])
    assert values(copy, "orders")[6:] == [b"z0"]


def test_at_an_instant_that_is_kept_all_of_it_is_as_of_then(
    long_ago: QueueRoot, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = instant_kept(long_ago)
    assert run(long_ago, to, "--as-of", kept) == Exit.STOPPED
    report = json.loads(capsys.readouterr().out)
    assert report["records_as_of"] == report["groups_as_of"] == kept
    copy = QueueRoot.existing(to)
    assert values(copy, "orders") == [b"a0", b"b0", None, b"c0"]
    (state,) = read_group_state(copy).states.values()
    assert state.committed_offset == 1


def test_a_fork_that_was_broken_off_goes_on_as_of_the_same_time_only(
    long_ago: QueueRoot,
    to: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back = ("--older-groups", "--as-of")
    with monkeypatch.context() as dies:
        dies.setattr(fork_job, "promote", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(long_ago, to, *back, said(THEN))
    assert run(long_ago, to, *back, said(THEN - HOUR // 4)) == Exit.FAILED
    assert run(long_ago, to) == Exit.FAILED
    assert f"begun as a copy as of {said(THEN)}" in capsys.readouterr().err
    assert run(long_ago, to, *back, said(THEN)) == Exit.STOPPED
    assert values(QueueRoot.existing(to), "orders")[4:] == [b"d0", b"e0"]


def test_a_mirror_does_not_become_a_fork_of_an_earlier_time(
    long_ago: QueueRoot, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its groups are ahead of it."""
    Mirror(long_ago, QueueRoot.replica(to, long_ago), 1 << 30).run()
    assert run(long_ago, to, "--older-groups", "--as-of", said(THEN)) == Exit.FAILED
    assert "begun as a copy as of now" in capsys.readouterr().err


def test_the_source_is_looked_at_once(
    root: QueueRoot, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut of a large log takes time, and what was refused or shown is what is copied."""
    first_life(root)
    fold(root, 1)
    cuts: list[int] = []

    def counted(source: QueueRoot, at: int, _skew_ms: int) -> object:
        cuts.append(at)
        return source_snapshot_at(source, at, 0)

    monkeypatch.setattr(fork_job, "source_snapshot_at", counted)
    assert run(root, to, "--as-of", str(a_moment() // 1_000)) == Exit.STOPPED
    assert len(cuts) == 1
