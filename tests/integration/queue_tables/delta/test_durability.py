"""The fsync rule, seen from the system calls of a real append on a real disk.

A name may only exist once what it leads to is durable, and an append may only return once the
name is. A power cut at any point then leaves a table in which every visible commit is whole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakequeue.errors import StorageUnavailable
from lakequeue.records import Stamp
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter, seal_shard
from tests.support.data.rows import inbox_rows

STAMP = Stamp(1_700_000_000_000_000)
HOUR_US = 3_600_000_000
Event = tuple[str, str]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Every write, fsync, link and mkdir of this process, in order, with what it was done to."""
    seen: list[Event] = []

    def recorded(name: str, path_of: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            path = path_of(*args)
            result = real(*args, **kwargs)
            seen.append((name, path))
            return result

        monkeypatch.setattr(os, name, call)

    recorded("fsync", lambda fd: str(Path(f"/proc/self/fd/{fd}").readlink()))
    recorded("write", lambda fd, _: str(Path(f"/proc/self/fd/{fd}").readlink()))
    recorded("link", lambda _, target: str(target))
    recorded("mkdir", lambda path, *_: str(path))
    return seen


def index(events: list[Event], kind: str, ending: str, part: str = "") -> int:
    found = [i for i, (k, p) in enumerate(events) if k == kind and p.endswith(ending) and part in p]
    assert len(found) == 1, (kind, ending, found, events)
    return found[0]


def test_an_append_syncs_data_folder_commit_then_links_then_syncs_the_log(
    tmp_path: Path, events: list[Event]
) -> None:
    root = QueueRoot.open(str(tmp_path))
    writer = ShardWriter.create(root, "inbox", "n")
    shard = tmp_path / writer.path
    writer.append(inbox_rows([b"x"]), STAMP)
    events.clear()
    writer.append(inbox_rows([b"y"]), Stamp(STAMP + 1))
    assert [kind for kind, _ in events if kind != "write"] == [
        "fsync",  # data file
        "fsync",  # its hour
        "fsync",  # commit, under its temporary name
        "link",
        "fsync",  # _delta_log
    ]
    link = index(events, "link", f"{2:020d}.json")
    data = index(events, "fsync", ".parquet")
    hour = index(events, "fsync", str(Path(events[data][1]).parent))
    commit = index(events, "fsync", ".tmp")
    log = index(events, "fsync", f"{shard}/_delta_log")
    assert data < hour < commit < link < log == len(events) - 1
    last_write = max(i for i, (kind, _) in enumerate(events) if kind == "write")
    assert last_write < commit


def test_a_new_hour_is_durable_in_its_table_before_the_commit_is_visible(
    tmp_path: Path, events: list[Event]
) -> None:
    root = QueueRoot.open(str(tmp_path))
    writer = ShardWriter.create(root, "inbox", "n")
    events.clear()
    writer.append(inbox_rows([b"y"]), Stamp(STAMP + HOUR_US))
    made = index(events, "mkdir", "hour=2023-11-14T23")
    synced = index(events, "fsync", str(tmp_path / writer.path))
    assert made < synced < index(events, "link", ".json")


def test_a_new_shard_is_durable_with_all_its_directories_before_it_is_used(
    tmp_path: Path, events: list[Event]
) -> None:
    root = QueueRoot.open(str(tmp_path))
    events.clear()
    writer = ShardWriter.create(root, "inbox", "n")
    link = index(events, "link", f"{0:020d}.json")
    shard = tmp_path / writer.path
    for folder in (tmp_path / "inbox", shard, shard / "_delta_log"):
        made = index(events, "mkdir", str(folder))
        parent = [
            i for i, e in enumerate(events) if e == ("fsync", str(folder.parent)) and i > made
        ]
        assert parent, f"the entry of {folder} is not durable"
        assert parent[0] < link
    assert events[-1] == ("fsync", str(tmp_path / writer.path / "_delta_log"))


def test_a_directory_that_a_dead_process_left_is_made_durable_too(
    tmp_path: Path, events: list[Event]
) -> None:
    writer = ShardWriter.create(QueueRoot.open(str(tmp_path)), "inbox", "n")
    (tmp_path / writer.path / "hour=2023-11-14T22").mkdir()
    events.clear()
    writer.append(inbox_rows([b"y"]), STAMP)
    synced = index(events, "fsync", str(tmp_path / writer.path))
    assert synced < index(events, "link", ".json")


def test_a_seal_is_durable_also_when_another_process_made_it(
    tmp_path: Path, events: list[Event]
) -> None:
    root = QueueRoot.open(str(tmp_path))
    writer = ShardWriter.create(root, "inbox", "n")
    seal_shard(root, "inbox", writer.name)
    events.clear()
    seal_shard(root, "inbox", writer.name)
    assert ("fsync", str(tmp_path / writer.path / "_delta_log")) in events


def test_no_temporary_name_stays_behind(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
    writer = ShardWriter.create(root, "inbox", "n")
    writer.append(inbox_rows([b"x"]), STAMP)
    with pytest.raises(FileExistsError):
        root.store.put_new(f"{writer.path}/_delta_log/{1:020d}.json", b"late")
    assert [p for p in tmp_path.rglob(".*") if p.is_file()] == []


def test_after_a_failed_sync_of_a_folder_nothing_in_it_counts_as_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = QueueRoot.open(str(tmp_path))
    writer = ShardWriter.create(root, "inbox", "n")
    real = os.fsync
    failed: list[int] = []

    def fails_once(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().name == "_delta_log" and not failed:
            failed.append(fd)
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", fails_once)
    for _ in range(2):
        with pytest.raises(StorageUnavailable) as caught:
            writer.append(inbox_rows([b"x"]), STAMP)
        assert caught.value.stored == "unknown"
