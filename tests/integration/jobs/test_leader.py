"""A standby that takes over, with ZooKeeper and the tables, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from coordination.zookeeper.session import Session
from jobs.folding.offsets_job import OffsetsJob
from jobs.source.source import SourceOptions
from jobs.streaming.leader import Leader
from jobs.streaming.query import ShardQuery
from lakequeue.errors import StorageUnavailable
from queue_tables.delta.actions import CommitInfo, Protocol, commit_path, encode
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import GROUP_OFFSETS
from queue_tables.upkeep.repair import repair_table
from tests.support.runs.light_driver import PlainQuery
from tests.support.services.zookeeper import MakeSession, wait_for

pytestmark = pytest.mark.zookeeper
NO_SPARK = cast(SparkSession, None)


@contextmanager
def candidate(root: QueueRoot, folder: Path, session: Session) -> Iterator[Leader]:
    """For the offsets job; it resigns at the end of the block."""
    options = SourceOptions(
        root=root.uri,
        folder=folder,
        kind="journal",
        max_batch_bytes=1 << 20,
        driver_batch_bytes=1 << 20,
        poll_s=60.0,
        min_interval_s=0.0,
        tasks=1,
    )
    job = OffsetsJob(root)
    query = PlainQuery(NO_SPARK, options, job.prepare)
    query.start(folder)
    leader = Leader(job, session, cast(ShardQuery, query), lambda **_: None, patient=True)
    leader.start()
    try:
        yield leader
    finally:
        leader.stop()


def test_a_standby_leads_as_soon_as_it_is_elected(
    root: QueueRoot, tmp_path: Path, sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A dead leader sends no notification: a standby that listens for one alone leads at its next
    # look.
    monkeypatch.setattr("jobs.streaming.leader.SLOW_POLL_S", 3_600.0)
    with ExitStack() as stack:
        with candidate(root, tmp_path, sessions("one")) as first:
            wait_for(lambda: first.leading, "the first leads")
            second = stack.enter_context(candidate(root, tmp_path, sessions("two")))
            wait_for(lambda: not second.troubles(), "the second stands by")
        wait_for(lambda: second.leading, "the second leads")


def test_a_damaged_table_is_waited_for_and_the_process_goes_on(
    root: QueueRoot, tmp_path: Path, sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.streaming.leader._DAMAGED_S", 0.05)
    version = TableLog(root.store, GROUP_OFFSETS.name).open().version + 1
    needs = encode([CommitInfo(engine="other"), Protocol(3, 7, ("anew",), ("anew",))])
    root.store.put_new(commit_path(GROUP_OFFSETS.name, version), needs)
    with candidate(root, tmp_path, sessions("one")) as leader:
        wait_for(lambda: leader.damage, "it says what keeps it from the table")
        assert "lakequeue repair" in leader.troubles()[0]
        assert leader.error is None
        assert not leader.failed.is_set()
        repair_table(root, GROUP_OFFSETS.name, GROUP_OFFSETS, execute=True)
        wait_for(lambda: leader.leading, "it leads when the table is repaired")
        assert leader.troubles() == []


def test_a_storage_that_is_away_for_a_moment_does_not_end_a_leader(
    root: QueueRoot, tmp_path: Path, sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.streaming.leader.UPKEEP_S", 0.05)
    names, asked = root.store.names, list[str]()

    def away_once(prefix: str) -> list[str]:
        asked.append(prefix)
        if len(asked) == 1:
            raise StorageUnavailable("away")
        return names(prefix)

    with candidate(root, tmp_path, sessions("one")) as leader:
        wait_for(lambda: leader.leading, "it leads")
        monkeypatch.setattr(root.store, "names", away_once)
        wait_for(lambda: len(asked) > 1 or leader.failed.is_set(), "it looks again")
        assert leader.error is None
