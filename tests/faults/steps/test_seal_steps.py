"""Whoever seals a shard is killed: the seal counts, and sealing again is no harm."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from lakequeue.errors import ShardSealed
from lakequeue.records import Stamp
from lakequeue.steps import Step
from queue_tables.delta.tail import commit_versions
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter, is_sealed, seal_shard, shard_path
from tests.support.data.rows import inbox_rows
from tests.support.forking.forked import run


@pytest.mark.parametrize("step", [Step.SEAL_COMMITTED])
def test_killed_at_a_step_the_owner_is_shut_out_and_the_next_to_seal_adds_nothing(
    tmp_path: Path, step: Step
) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    owner = ShardWriter.create(root, "inbox", "paused")
    owner.append(inbox_rows([b"a"]), Stamp(1_700_000_000_000_000))
    command = [sys.executable, "-m", "tests.support.runs.seal_process", "--root", root.uri]
    assert run([*command, "--shard", owner.name, "--crash-at", step]) == -signal.SIGKILL
    assert is_sealed(root, "inbox", owner.name)
    versions = commit_versions(root.store, shard_path("inbox", owner.name))
    seal_shard(root, "inbox", owner.name)
    assert commit_versions(root.store, shard_path("inbox", owner.name)) == versions
    with pytest.raises(ShardSealed):
        owner.append(inbox_rows([b"b"]), Stamp(1_700_000_000_000_001))
