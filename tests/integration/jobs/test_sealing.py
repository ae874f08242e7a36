"""Who is taken for gone, and what happens to its shard."""

from __future__ import annotations

import pytest

from jobs.streaming.sealing import QUIET_S, Sealer, abandoned
from lakequeue.records import ShardName, Stamp
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter, is_sealed
from tests.support.data.order_truth import Inbox
from tests.support.data.rows import inbox_rows

BASE = 1_700_000_000_000_000
RECORD = {"topic_id": "t", "value": b"v"}


class Clock:
    """Seconds that pass when told to."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("shards", "live", "gone"),
    [
        (["a-1"], {"a"}, set()),
        (["a-1"], set(), {"a-1"}),
        (["a-1", "a-2"], {"a"}, {"a-1"}),
        (["a-b-1", "a-2"], {"a-b"}, {"a-2"}),
    ],
)
def test_a_node_owns_its_newest_shard_at_most(
    shards: list[str], live: set[str], gone: set[str]
) -> None:
    assert abandoned([ShardName(s) for s in shards], live) == gone


def test_a_gone_nodes_shard_is_sealed_when_it_is_quiet_and_done(root: QueueRoot) -> None:
    clock = Clock()
    inbox = Inbox(root, "n")
    shard = inbox.name
    inbox.commit(BASE, [RECORD])
    sealer = Sealer(root, "inbox", clock)
    sealer.seal_abandoned(set(), {})
    clock.now += QUIET_S
    sealer.seal_abandoned(set(), {})
    assert not is_sealed(root, "inbox", shard), "not ordered to its end"
    inbox.commit(BASE + 1, [RECORD])
    done = {shard: Stamp(BASE + 1)}
    sealer.seal_abandoned(set(), done)
    assert not is_sealed(root, "inbox", shard), "it was busy since the last look"
    clock.now += QUIET_S / 2
    sealer.seal_abandoned({"n"}, done)
    clock.now += QUIET_S / 2
    sealer.seal_abandoned(set(), done)
    assert not is_sealed(root, "inbox", shard), "it was there in between"
    clock.now += QUIET_S
    sealer.seal_abandoned(set(), done)
    assert is_sealed(root, "inbox", shard)
    assert sealer.sealed == {shard}
    inbox.commit(BASE + 2, [RECORD])
    assert inbox.name != shard


def test_a_shard_that_says_how_long_its_owner_may_be_quiet_is_left_alone_for_that_long(
    root: QueueRoot,
) -> None:
    clock = Clock()
    shard = ShardWriter.create(root, "inbox", "spark-query", quiet_s=3_600)
    shard.append(inbox_rows([b"v"]), Stamp(BASE))
    done = {shard.name: Stamp(BASE)}
    sealer = Sealer(root, "inbox", clock)
    sealer.seal_abandoned(set(), done)
    clock.now += 10 * QUIET_S
    sealer.seal_abandoned(set(), done)
    assert not is_sealed(root, "inbox", shard.name)
    clock.now += 3_600
    sealer.seal_abandoned(set(), done)
    assert is_sealed(root, "inbox", shard.name)
