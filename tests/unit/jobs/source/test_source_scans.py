"""How often a source that finds nothing asks its storage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.source.leader_state import LeaderState
from jobs.source.source import ShardReader, SourceOptions
from jobs.source.source_channel import DriverEnd
from lakequeue.clock import boot_seconds
from lakequeue.records import Epoch, Stamp
from queue_tables.delta.store import LocalStore
from queue_tables.files.commit_events import tells_of_commits
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from tests.support.data.rows import inbox_rows
from tests.support.services.zookeeper import wait_for

DEADLINE_S = 60.0


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[DriverEnd]:
    """It leads."""
    end = DriverEnd(tmp_path, "inbox")
    end.open()
    end.tell(LeaderState(Epoch(1)))
    yield end
    end.close()


@pytest.fixture
def reader(tmp_path: Path, driver: DriverEnd) -> Iterator[ShardReader]:
    """Of a queue with one inbox shard."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    ShardWriter.create(root, "inbox", "node")
    options = SourceOptions(
        root=root.uri,
        folder=tmp_path,
        kind="inbox",
        max_batch_bytes=1 << 20,
        driver_batch_bytes=1 << 20,
        poll_s=0.05,
        min_interval_s=0.0,
        tasks=1,
    )
    made = ShardReader(options)
    yield made
    made.stop()


@pytest.fixture
def requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What this queue's storage is asked for: a process has one meter for all."""
    found: Counter[str] = Counter()

    def counted(operation: str) -> Callable[[LocalStore, str], Any]:
        ask = getattr(LocalStore, operation)

        def asks(store: LocalStore, path: str) -> Any:
            if store.local_path == tmp_path / "queue":
                found[operation] += 1
            return ask(store, path)

        return asks

    for operation in ("names", "get"):
        monkeypatch.setattr(LocalStore, operation, counted(operation))
    return found


def test_an_idle_source_looks_once_each_time_it_is_asked(
    reader: ShardReader, driver: DriverEnd, requests: Counter[str]
) -> None:
    start: dict[str, int] = {}
    reader.latestOffset(start)  # the rehearsal
    assert reader.latestOffset(start) is start  # opens the shard
    requests.clear()
    asked = 10
    for _ in range(asked):
        assert reader.latestOffset(start) is start
    assert requests == {"names": asked, "get": asked}, "one empty poll of the shard"
    wait_for(lambda: driver.status().usage.requests.get("list"), "what the source has asked for")


def test_a_commit_wakes_a_source_without_a_word_of_anybody(
    reader: ShardReader, driver: DriverEnd, tmp_path: Path
) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    if not tells_of_commits(root.store):
        pytest.skip("the kernel does not tell of commits on this file system")
    writer = ShardWriter.create(root, "inbox", "other")
    start: dict[str, int] = {}
    reader.latestOffset(start)  # the rehearsal
    reader.latestOffset(start)  # opens the shards
    reader._options = replace(reader._options, poll_s=DEADLINE_S)
    began = boot_seconds()
    committing = threading.Timer(0.1, writer.append, (inbox_rows([b"x"]), Stamp(50)))
    committing.start()
    assert set(reader.latestOffset(start)) == {writer.name}
    assert boot_seconds() - began < DEADLINE_S / 2
    committing.join()


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends when all is read"])
def test_only_a_query_that_goes_on_waits_for_a_larger_batch(
    reader: ShardReader, tmp_path: Path, ends: bool
) -> None:
    far = reader._options.to_options() | {"min_interval_s": "0", "bulk_interval_s": "600"}
    paced = ShardReader(SourceOptions.of(far))
    writer = ShardWriter.create(QueueRoot.open(str(tmp_path / "queue")), "inbox", "other")
    writer.append(inbox_rows([b"x" * 100] * 2_000), Stamp(50))
    writer.append(inbox_rows([b"y"]), Stamp(60))
    if ends:
        paced.prepareForTriggerAvailableNow()
    paced._pace.began(boot_seconds(), 1_000_000_000, 1)
    start = paced.latestOffset({})  # the rehearsal
    found = paced.latestOffset(start)
    assert (found == start) is not ends
    paced.stop()
