"""Builds of the product without one of its safeguards: what the checker has to catch.

Each patch takes away what one sentence of the design rests on. `slow_scans` breaks nothing: it
makes the moments long in which a race is lost, for the right build and for the wrong one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from tests.support.faults.patching import Patch

_LATE_S = 0.3
_SLOW_S = 0.1


def _replace(owner: Any, name: str, wrong: Any) -> None:
    """Put `wrong` in the place of something: where nothing stands, nothing would be broken."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name} to take away")
    setattr(owner, name, wrong)


def _ack_before_commit(appender: ModuleType) -> None:
    """The answer does not wait for the commit, which comes later, if it comes."""
    right = appender.Appender.commit
    pool = ThreadPoolExecutor(1)

    def late(self: Any, group: Any) -> None:
        threading.Event().wait(_LATE_S)
        right(self, group)

    def commit(self: Any, group: Any) -> Any:
        pool.submit(late, self, group)
        rows = sum(len(part.rows) for submission in group for part in submission.parts)
        stamp, version = self.newest_stamp, self._writer.version
        return appender.Committed(self.shard, stamp, version, rows, 0, {})

    _replace(appender.Appender, "commit", commit)


def _no_epoch_check_in_journal(journal: ModuleType) -> None:
    """Facts are committed whatever fence has come between."""
    _replace(
        journal, "judge", lambda entries, _fences, _taken: [f for e in entries for f in e.facts]
    )


def _no_epoch_check_in_log(rejects: ModuleType) -> None:
    """A leader commits behind whatever a newer one has committed meanwhile."""

    def commit(table: Any, actions: Any, info: Any, _epoch: Any, **_begins: bool) -> Any:
        met: list[Any] = []
        while True:
            try:
                table.commit(actions, info)
            except rejects.CommitConflict as conflict:
                met += conflict.commits
            else:
                return met

    _replace(rejects, "fenced_commit", commit)


def _no_trust_after_commit(acks: ModuleType) -> None:
    """The answer does not ask whether the lease still holds."""
    _replace(acks, "check_trusted", lambda _owned, _hint: None)


def _no_watermark(order_state: ModuleType) -> None:
    """A leader does not know how far its predecessors have come."""
    _replace(order_state.OrderState, "watermarks", lambda _self: {})


def _one_scan(scanner: ModuleType) -> None:
    """What the first scan saw is admitted."""
    _replace(scanner.ShardScanner, "_second_scan", lambda _self, _first, _before: [])


def _slow_scans(scanner: ModuleType) -> None:
    right = scanner.ShardScanner._read

    def read(self: Any, *args: Any, **options: Any) -> None:
        right(self, *args, **options)
        threading.Event().wait(_SLOW_S)

    _replace(scanner.ShardScanner, "_read", read)


def _reopened_shard(shards: ModuleType) -> None:
    """A process that starts again goes on in the shard of the one before."""
    right = shards.ShardWriter.create.__func__

    def create(cls: Any, root: Any, kind: str, node: str, *args: Any) -> Any:
        old = [name for name in root.shards(kind) if shards.node_of(name) == node]
        if not old:
            return right(cls, root, kind, node, *args)
        path = shards.shard_path(kind, old[-1])
        log = shards.TableLog(root.store, path, keep_files=False).open()
        writer = cls(log, kind, old[-1])
        writer._sequence = log.txns.get(shards.GROUP_TXN, 0)
        return writer

    _replace(shards.ShardWriter, "create", classmethod(create))


def _no_sync(store: ModuleType) -> None:
    """What is written is left to the kernel, which writes it out when it likes."""
    _replace(
        store,
        "_write_synced",
        lambda path, data, *_: path.write_bytes(bytes(memoryview(data))),
    )
    _replace(store, "_fsync_dir", lambda _path: None)


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "ack_before_commit": [("ingest.commit.appender", _ack_before_commit)],
    "no_epoch_check": [
        ("consumer_service.ownership.journal", _no_epoch_check_in_journal),
        ("consumer_service.streams.acks", _no_trust_after_commit),
    ],
    "no_order_epoch_check": [("jobs.ordering.rejects", _no_epoch_check_in_log)],
    "no_sync": [("queue_tables.delta.store", _no_sync)],
    "no_watermark": [("jobs.ordering.order_state", _no_watermark)],
    "one_scan": [("jobs.source.shard_scanner", _one_scan)],
    "slow_scans": [("jobs.source.shard_scanner", _slow_scans)],
    "reopened_shard": [("queue_tables.shards.shards", _reopened_shard)],
}
