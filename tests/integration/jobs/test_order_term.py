"""The order job's parts over real tables, without Spark between them."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.ordering.order_state import OrderState
from jobs.rows.id_hash import hash_ids
from lakequeue.errors import CorruptTable, LeadershipLost
from lakequeue.records import Stamp, TopicId
from lakequeue.steps import Step
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox, judge, log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000


def test_records_of_several_shards_come_out_gapless_and_in_order(root: QueueRoot) -> None:
    topic_id = new_topic(root, partitions=4)
    rng = random.Random(7)
    shards = [Inbox(root, f"n{i}") for i in range(3)]
    stamp = BASE
    orderer = Orderer(root, 1, max_bytes=400)
    for n in range(60):
        stamp += rng.randint(1, 1_000)
        records: list[dict[str, object]] = [
            {
                "topic_id": topic_id,
                "partition": rng.randrange(4),
                "value": f"v{n}-{i}".encode(),
                "message_id": f"m{rng.randint(0, 200)}",
            }
            for i in range(rng.randint(1, 5))
        ]
        rng.choice(shards).commit(stamp, records)
        if rng.random() < 0.2:
            orderer.drain()
            judge(root)
    orderer.drain()
    judge(root)
    assert reject_rows(root), "the ids repeat, so some were duplicates"


def test_a_new_leader_goes_on_where_the_old_one_stopped(root: QueueRoot) -> None:
    topic_id = new_topic(root, partitions=4)
    inbox = Inbox(root, "n")
    for term in range(1, 4):
        for n in range(5):
            record = {"topic_id": topic_id, "value": b"v", "message_id": f"m{n + term}"}
            inbox.commit(BASE + term * 100 + n, [record])
        Orderer(root, term).drain()
        judge(root)
    assert len(log_rows(root)) == 7
    assert len(reject_rows(root)) == 8


def test_a_batch_half_done_is_judged_alike_by_a_leader_that_remembers_less(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = TopicStore(root).create("short", partitions=1, dedup_window_ms=1_000)[0].topic_id
    inbox = Inbox(root, "n")

    def commit(stamp: int, *ids: str) -> None:
        records = [{"topic_id": topic_id, "value": b"v", "message_id": i} for i in ids]
        inbox.commit(stamp, records)

    def crash(step: Step) -> None:
        if step is Step.ORDER_REJECTS_COMMITTED:
            raise RuntimeError("killed with the rejects committed")

    old = Orderer(root, 1)
    commit(BASE, *(f"m{n}" for n in range(10)))
    old.drain()
    commit(BASE + 10_000_000, "later")
    old.drain()
    # Beyond the window of what was sent again, but still in the memory of the old leader.
    commit(BASE + 10_000_001, "later", "m3", "fresh")
    planned = old.plan()
    assert planned is not None
    with monkeypatch.context() as dying:
        dying.setattr("jobs.ordering.order_batch.reach", crash)
        with pytest.raises(RuntimeError):
            old.term.process(planned)
    assert len(reject_rows(root)) == 1
    Orderer(root, 2).drain()
    log, rejects = log_rows(root), reject_rows(root)
    assert [r["message_id"] for r in log[10:]] == ["later", "m3", "fresh"]
    assert [r["message_id"] for r in rejects] == ["later"]


def test_a_superseded_leader_is_refused_and_changes_nothing(root: QueueRoot) -> None:
    topic_id = new_topic(root, partitions=4)
    inbox = Inbox(root, "n")
    old = Orderer(root, 1)
    inbox.commit(BASE, [{"topic_id": topic_id, "value": b"a", "message_id": "x"}] * 2)
    planned = old.plan()
    assert planned is not None
    new = Orderer(root, 2)
    with pytest.raises(LeadershipLost, match="epoch 1 presented, 2 current"):
        old.term.process(planned)
    assert not log_rows(root)
    assert not reject_rows(root)
    new.drain()
    judge(root)
    inbox.commit(BASE + 1, [{"topic_id": topic_id, "value": b"b"}])
    with pytest.raises(LeadershipLost):
        old.drain()
    new.drain()
    judge(root)


def test_an_epoch_that_is_not_the_highest_cannot_begin(root: QueueRoot) -> None:
    Orderer(root, 5)
    for epoch in (4, 5):  # an ensemble that was rebuilt may give one epoch to two
        with pytest.raises(LeadershipLost):
            Orderer(root, epoch)


def test_rows_of_a_topic_that_is_gone_stand_in_rejects(root: QueueRoot) -> None:
    kept, gone = new_topic(root, "kept", partitions=4), new_topic(root, "gone", partitions=4)
    inbox = Inbox(root, "n")
    records: list[dict[str, object]] = [
        {"topic_id": kept, "value": b"a", "request": "r", "atomic": True},
        {"topic_id": gone, "value": b"b", "request": "r", "atomic": True},
        {"topic_id": kept, "value": b"c", "request": "s"},
    ]
    inbox.commit(BASE, records)
    TopicStore(root).delete("gone")
    Orderer(root, 1).drain()
    judge(root)
    assert [r["value"] for r in log_rows(root)] == [b"c"]
    assert [(r["value"], r["reason"], r["topic"]) for r in reject_rows(root)] == [
        (b"a", "request_refused", "kept"),
        (b"b", "topic_gone", None),
    ]


def test_a_copy_older_than_what_is_in_memory_is_still_found(root: QueueRoot) -> None:
    store = TopicStore(root)
    topic_id = store.create("orders", partitions=1, dedup_window_ms=60_000)[0].topic_id
    inbox, slow = Inbox(root, "n"), Inbox(root, "slow")
    inbox.commit(BASE, [{"topic_id": topic_id, "value": b"a", "message_id": "x"}])
    Orderer(root, 1).drain()
    inbox.commit(BASE + 3_600_000_000, [{"topic_id": topic_id, "value": b"b", "message_id": "y"}])
    later = Orderer(root, 2)
    later.drain()
    slow.commit(BASE + 30_000_000, [{"topic_id": topic_id, "value": b"a", "message_id": "x"}])
    later.drain()
    judge(root)
    assert len(log_rows(root)) == 2


def led_and_followed(root: QueueRoot, partitions: int, commits: int) -> tuple[Orderer, OrderState]:
    """A leader that has ordered so many commits, and a standby that was warm before."""
    topic_id = new_topic(root, partitions=partitions)
    inbox = Inbox(root, "n")
    leader = Orderer(root, 1)
    standby = OrderState(root, 10**6)
    standby.warm()
    for n in range(commits):
        inbox.commit(BASE + n, [{"topic_id": topic_id, "value": b"v", "message_id": f"m{n}"}])
        leader.drain()
    return leader, standby


def test_a_standby_that_follows_knows_the_ids_when_it_leads(root: QueueRoot) -> None:
    leader, standby = led_and_followed(root, partitions=4, commits=10)
    assert standby.catch_up()
    assert len(standby.index) == len(leader.state.index) == 10
    assert standby.watermarks() == leader.state.watermarks()


def test_a_standby_holds_the_ids_of_a_window_however_long_it_follows(root: QueueRoot) -> None:
    window_ms, per_window, windows = 60_000, 8, 20
    topic_id = new_topic(root)
    TopicStore(root).alter("orders", dedup_window_ms=window_ms)
    inbox, leader = Inbox(root, "n"), Orderer(root, 1)
    standby = OrderState(root, 10**6)
    standby.warm()
    most = 0
    for n in range(per_window * windows):
        stamp = BASE + n * window_ms * 1_000 // per_window
        inbox.commit(stamp, [{"topic_id": topic_id, "value": b"v", "message_id": f"m{n}"}])
        leader.drain()
        standby.catch_up()
        most = max(most, len(standby.index))
    assert most <= 3 * per_window
    hi, lo = hash_ids(pa.array([f"m{n - per_window // 2}", f"m{n - 2 * per_window}"]))
    now = Stamp(stamp)
    found = standby.index.find(
        TopicId(topic_id), hi, lo, oldest=now, newest=now, window_us=window_ms * 1_000
    )
    assert found.mask.tolist() == [True, False], "those of the window, and no others"


def test_a_standby_that_met_a_damaged_file_knows_all_ids_when_it_is_mended(root: QueueRoot) -> None:
    leader, standby = led_and_followed(root, partitions=1, commits=2)
    damaged = min(
        Path(root.uri, "log").rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns
    )
    whole = damaged.read_bytes()
    damaged.write_bytes(b"no Parquet")
    with pytest.raises(CorruptTable):
        standby.catch_up()
    damaged.write_bytes(whole)
    standby.catch_up()
    standby.warm()  # as a term begins
    assert len(standby.index) == len(leader.state.index) == 2


@pytest.mark.parametrize("seed", range(4))
def test_an_atomic_request_is_in_one_version_and_not_interleaved(
    root: QueueRoot, seed: int
) -> None:
    topic_id = new_topic(root, partitions=2)
    rng = random.Random(seed)
    shards = [Inbox(root, f"n{i}") for i in range(3)]
    stamp = BASE
    for group in range(40):
        stamp += rng.randint(0, 2)  # equal stamps of different shards, too
        records: list[dict[str, object]] = []
        for request in range(rng.randint(1, 3)):
            for row in range(rng.randint(1, 6)):
                name = f"{group}-{request}"
                place = {"topic_id": topic_id, "partition": rng.randrange(2), "atomic": True}
                records.append(place | {"value": f"{name}-{row}".encode(), "request": name})
        shards[group % 3].commit(stamp + group, records)
    Orderer(root, 1, max_bytes=rng.choice([20, 60, 200])).drain()
    judge(root)
    by_request: dict[tuple[str, int], list[int]] = {}
    versions: dict[str, set[object]] = {}
    for row_ in log_rows(root):
        name = row_["value"].decode().rpartition("-")[0]
        by_request.setdefault((name, row_["partition"]), []).append(row_["offset"])
        versions.setdefault(name, set()).add(row_["ordered_at"])
    for offsets in by_request.values():
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    assert {len(times) for times in versions.values()} == {1}


def test_a_prepared_batch_is_judged_anew_if_another_came_in_between(root: QueueRoot) -> None:
    topic_id = new_topic(root, partitions=1)
    inbox = Inbox(root, "n")
    orderer = Orderer(root, 1)
    batches = []
    for n, name in enumerate(("a", "b")):
        inbox.commit(BASE + n, [{"topic_id": topic_id, "value": b"v", "message_id": name}])
        parts = [partial(orderer.read, piece) for piece in orderer.cut()]
        batches.append(orderer.term.prepare(parts, lambda _rows: None))
    first, second = batches
    assert log_rows(root) == [], "nobody sees what is prepared"
    done = [commit(lambda _part: None) for commit in (first, second, second, first)]
    assert [one and one.ordered for one in done] == [1, 1, None, None]
    assert [row["message_id"] for row in log_rows(root)] == ["a", "b"]
    judge(root)


def test_a_prepared_batch_that_nobody_commits_counts_for_nothing(root: QueueRoot) -> None:
    topic_id = new_topic(root, partitions=1)
    inbox = Inbox(root, "n")
    orderer = Orderer(root, 1)
    inbox.commit(BASE, [{"topic_id": topic_id, "value": b"v", "message_id": "a"}])
    parts = [partial(orderer.read, piece) for piece in orderer.cut()]
    orderer.term.prepare(parts, lambda _rows: None)
    assert orderer.term.process_parts(parts, lambda _rows: None) is not None
    assert [row["message_id"] for row in log_rows(root)] == ["a"]
    judge(root)
