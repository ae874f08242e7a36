"""Whether more facts are just being made: what is said last counts."""

from __future__ import annotations

import threading

import pytest

from consumer_service.ownership.journal import Journal
from queue_tables.delta.store import ObjectStore
from queue_tables.root import QueueRoot
from queue_tables.shards.group_commit import GroupCommitter


def test_when_all_have_ended_the_committer_has_heard_so_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = QueueRoot.over(ObjectStore.in_memory())
    journal = Journal(root, "n1", 1.0, lambda: None, lambda _: None)
    heard: list[bool] = []
    last = threading.Thread(target=journal.rush, args=[False])

    def hears(_committer: object, on: bool) -> None:
        if len(heard) == 2 and not last.ident:
            # Another ends, while it is told that one has ended.
            last.start()
            last.join(0.05)
        heard.append(on)

    monkeypatch.setattr(GroupCommitter, "rush", hears)
    journal.rush(True)
    journal.rush(True)
    journal.rush(False)
    last.join()
    assert heard == [True, True, True, False]
