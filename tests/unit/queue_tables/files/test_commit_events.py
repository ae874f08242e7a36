"""The kernel tells of commits to a local root, and of nothing else."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from lakequeue.clock import boot_seconds
from lakequeue.records import Version
from queue_tables.delta.actions import commit_path
from queue_tables.delta.store import LocalStore, ObjectStore
from queue_tables.files import commit_events
from queue_tables.files.commit_events import (
    CommitEvents,
    CommitSignal,
    interval_of,
    kind_of,
    tells_of_commits,
)

DEADLINE_S = 30.0
MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:27 / /mnt/far\\040away rw,relatime - nfs4 server:/ rw
33 31 0:29 / /mnt/far\\040away/near rw,relatime - xfs /dev/sdb rw
35 22 0:30 / /two rw - ext4 /dev/sdc rw
36 22 0:31 / /two rw - virtiofs shared rw
37 22 0:32 / /mnt/données loin rw - nfs4 server:/two rw
"""

needs_inotify = pytest.mark.skipif(
    not tells_of_commits(LocalStore(Path("/tmp"))), reason="/tmp is on another kind of storage"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/queue", "ext4"),
        ("/mnt/far away/queue", "nfs4"),
        ("/mnt/far away/near/queue", "xfs"),
        ("/mnt/far", "ext4"),
        ("/two/queue", "virtiofs"),
        ("/mnt/données loin/queue", "nfs4"),
    ],
)
def test_the_file_system_of_a_root_is_that_of_the_innermost_mount(path: str, kind: str) -> None:
    assert kind_of(Path(path), MOUNTS) == kind


def test_no_file_system_that_others_write_to_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("22 1 0:5 / / rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(commit_events, "_MOUNTS", mounts)
    assert not tells_of_commits(LocalStore(tmp_path))
    assert CommitEvents.of(LocalStore(tmp_path)) is None
    assert not tells_of_commits(ObjectStore.in_memory())
    assert interval_of(20.0, LocalStore(tmp_path)) == 20.0


def test_a_mount_of_any_name_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"22 1 0:5 / / rw - ext4 a rw\n23 1 0:6 / /mnt/donn\xe9es rw - nfs4 b rw\n")
    monkeypatch.setattr(commit_events, "_MOUNTS", mounts)
    assert tells_of_commits(LocalStore(tmp_path))
    far = os.fsdecode(b"/mnt/donn\xe9es/queue")
    assert not tells_of_commits(LocalStore(Path(far)))


@needs_inotify
def test_where_the_kernel_tells_notifications_are_rare(tmp_path: Path) -> None:
    assert interval_of(20.0, LocalStore(tmp_path)) == 100.0


@needs_inotify
def test_a_commit_is_told_and_what_comes_before_it_is_not(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new(commit_path("log", Version(0)), b"{}")
    events = CommitEvents()
    assert events.watch(f"{tmp_path}/log/_delta_log")
    assert not events.watch(f"{tmp_path}/log/_delta_log")
    assert not events.take()
    (tmp_path / "log/_delta_log/.1.json.7-ab.tmp").write_bytes(b"{}")
    assert not events.take()
    store.put_new(commit_path("log", Version(1)), b"{}")
    assert events.take()
    assert not events.take()
    events.close()


@needs_inotify
def test_a_folder_that_went_away_and_came_back_is_heard_again(tmp_path: Path) -> None:
    events = CommitEvents()
    folder = tmp_path / "shard"
    assert not events.watch(str(folder))
    folder.mkdir()
    assert events.watch(str(folder))
    folder.rmdir()
    assert events.take()
    folder.mkdir()
    assert events.watch(str(folder))
    (folder / "0.json").touch()
    assert events.take()
    events.close()


@needs_inotify
def test_a_signal_is_given_by_a_commit_and_by_whoever_sets_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new(commit_path("log", Version(0)), b"{}")
    signal = CommitSignal(store, "log")
    assert signal.wait(0.0)  # what came before it listened
    assert not signal.wait(0.0)
    store.put_new(commit_path("log", Version(1)), b"{}")
    assert signal.wait(0.0)
    assert not signal.wait(0.01)
    began = boot_seconds()
    setting = threading.Timer(0.05, signal.set)
    setting.start()
    assert signal.wait(DEADLINE_S)
    assert boot_seconds() - began < DEADLINE_S / 2
    assert signal.wait(0.0)
    signal.clear()
    assert not signal.wait(0.0)
    setting.join()
    signal.close()


@needs_inotify
def test_a_signal_is_given_in_a_process_with_thousands_of_connections(tmp_path: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, most[1]), most[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        store = LocalStore(tmp_path)
        store.put_new(commit_path("log", Version(0)), b"{}")
        signal = CommitSignal(store, "log")
        assert signal.wait(0.0)
        assert not signal.wait(0.0)
        store.put_new(commit_path("log", Version(1)), b"{}")
        assert signal.wait(DEADLINE_S)
        signal.close()
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


def test_where_the_kernel_does_not_tell_a_signal_is_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_events, "tells_of_commits", lambda _: False)
    signal = CommitSignal(LocalStore(tmp_path), "log")
    assert not signal.wait(0.0)
    signal.set()
    assert signal.wait(0.0)
    signal.close()
