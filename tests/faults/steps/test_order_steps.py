"""The order job is killed at each of its steps, in a process of its own, and started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue.steps import Step
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox, judge, log_rows, reject_rows
from tests.support.forking.forked import Forked, run
from tests.support.kinds import one_now
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000
STEPS = [step for step in Step if step.startswith("order.")]
MAX_BYTES = 40
"""Of a batch: so a few records make several."""
PROJECT = Path(__file__).resolve().parents[3]


def order_process(root: QueueRoot, epoch: int, *args: str) -> int:
    """Run the order process to its end; the exit code, negative for a signal."""
    command = [sys.executable, "-m", "tests.support.runs.order_process", "--root", root.uri]
    command += ["--epoch", str(epoch), "--max-bytes", str(MAX_BYTES), *args]
    return run(command)


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """A queue with two shards of records, every fourth of them a copy."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    topic_id = TopicStore(root).create("orders", partitions=2)[0].topic_id
    shards = [Inbox(root, "a"), Inbox(root, "b")]
    for n in range(24):
        record = {
            "topic_id": topic_id,
            "partition": n % 2,
            "value": f"value-{n}".encode(),
            "message_id": f"m{n - n % 4 // 3 * 2}",
        }
        shards[n % 3 % 2].commit(BASE + n, [record])
    return root


@pytest.mark.parametrize("count", one_now([1, 3]))
@pytest.mark.parametrize("step", one_now(STEPS, Step.ORDER_DATA_WRITTEN))
def test_killed_at_a_step_nothing_is_lost_or_doubled(
    root: QueueRoot, step: Step, count: int
) -> None:
    if step is Step.ORDER_EPOCH_COMMITTED and count > 1:
        count = 1
    assert order_process(root, 1, "--crash-at", f"{step}:{count}") == -9
    judge(root, complete=False)
    Orderer(root, 2, MAX_BYTES).drain()
    judge(root)
    assert len(log_rows(root)) == 18


@pytest.mark.parametrize("step", one_now([Step.ORDER_REJECTS_COMMITTED, Step.ORDER_DATA_WRITTEN]))
def test_a_batch_half_done_is_cut_again_as_it_was(root: QueueRoot, step: Step) -> None:
    """A commit with a lower stamp turns up after the crash: it must not join that batch."""
    assert order_process(root, 1, "--crash-at", f"{step}:1") == -9
    before = reject_rows(root)
    late = Inbox(root, "late")
    topic_id = TopicStore(root).get("orders").topic_id
    for n in range(8):
        late.commit(BASE - 100 + n, [{"topic_id": topic_id, "value": b"x", "message_id": f"m{n}"}])
    Orderer(root, 2, MAX_BYTES).drain()
    judge(root)
    assert [r for r in reject_rows(root) if r in before] == before


def test_killed_twice_in_the_same_batch(root: QueueRoot) -> None:
    for epoch, step in enumerate(
        [Step.ORDER_REJECTS_COMMITTED, Step.ORDER_EPOCH_COMMITTED, Step.ORDER_DATA_WRITTEN], 1
    ):
        assert order_process(root, epoch, "--crash-at", step.value) == -9
    Orderer(root, 9, MAX_BYTES).drain()
    judge(root)


def test_a_frozen_leader_that_wakes_up_is_refused(root: QueueRoot) -> None:
    """Two leaders alive: the old one stops just before its commit, and is woken after the new."""
    command = [sys.executable, "-m", "tests.support.runs.order_process", "--root", root.uri]
    command += ["--epoch", "1", "--max-bytes", "40", "--crash-at", "order.data_written:2:stop"]
    with Forked(command, cwd=PROJECT, stdout=subprocess.DEVNULL) as old:
        _, status = os.waitpid(old.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        new = Orderer(root, 2, max_bytes=40)
        assert new.step() is not None
        os.kill(old.pid, 18)
        assert old.wait(60) == 3
        new.drain()
    judge(root)
