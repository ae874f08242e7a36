"""A standby that takes over, with ZooKeeper and the tables, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from coordination.session import Session
from jobs.leader import Leader
from jobs.offsets_work import OffsetsWork
from jobs.query import ShardQuery
from jobs.source import SourceOptions
from queue_tables.root import QueueRoot
from tests.support.light_driver import PlainQuery
from tests.support.zookeeper import MakeSession, wait_for

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
    work = OffsetsWork(root)
    query = PlainQuery(NO_SPARK, options, work.process)
    query.start(folder)
    leader = Leader(work, session, cast(ShardQuery, query), lambda **_: None)
    leader.start()
    try:
        yield leader
    finally:
        leader.stop()


def test_a_standby_leads_as_soon_as_it_is_elected(
    root: QueueRoot, tmp_path: Path, sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A dead leader rings no bell: a standby that listens for one alone leads at its next look.
    monkeypatch.setattr("jobs.leader.SLOW_POLL_S", 3_600.0)
    with ExitStack() as stack:
        with candidate(root, tmp_path, sessions("one")) as first:
            wait_for(lambda: first.leading, "the first leads")
            second = stack.enter_context(candidate(root, tmp_path, sessions("two")))
            wait_for(lambda: not second.troubles(), "the second stands by")
        wait_for(lambda: second.leading, "the second leads")
