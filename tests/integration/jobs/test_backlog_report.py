"""A dry run of the order and offsets jobs says what waits, and does nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs import driver, offsets, order
from jobs.command_line.options import Exit
from lakequeue.records import Stamp
from queue_tables.delta.table import TableLog
from queue_tables.groups.state import GroupOffsetsWriter, read_group_state
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox
from tests.support.data.replicas import NOW, commit
from tests.support.runs.order_process import Orderer

HOUR_S = 3_600


def test_what_waits_is_told_and_nothing_is_done(
    root: QueueRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(job: str) -> dict[str, float]:
        assert driver.main(["--root", root.uri, "--dry-run", "--json"]) == Exit.STOPPED
        found: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out)
        return found[job]

    nothing = {"shards": 0, "commits": 0, "bytes": 0, "oldest_s": 0}
    assert said("order") == nothing | {"records": 0}
    assert said("offsets") == nothing | {"facts": 0}
    topic = TopicStore(root).create("t", partitions=1)[0]
    record = {"topic_id": topic.topic_id, "value": b"abc"}
    inbox, other = Inbox(root, "a"), Inbox(root, "b")
    inbox.commit(NOW - HOUR_S * 1_000_000, [record, record])
    inbox.commit(NOW, [record])
    other.commit(NOW, [record])
    commit(root, topic, "g", 1)
    versions = [TableLog(root.store, name).open().version for name in ("log", "group_offsets")]
    waits = said("order")
    assert (waits["shards"], waits["commits"], waits["records"], waits["bytes"]) == (2, 3, 4, 12)
    assert HOUR_S <= waits["oldest_s"] < HOUR_S + 600
    assert (said("offsets")["commits"], said("offsets")["facts"]) == (1, 1)
    assert order.main(["--root", root.uri, "--dry-run"]) == Exit.STOPPED
    text = capsys.readouterr().out
    assert "records: 4" in text
    assert "offsets" not in text
    now = [TableLog(root.store, name).open().version for name in ("log", "group_offsets")]
    assert now == versions
    assert not Path(root.uri, "_work").exists()
    Orderer(root, 1).drain()
    reading, writer = read_group_state(root), GroupOffsetsWriter(root)
    writer.begin(1)  # type: ignore[arg-type]
    writer.commit(reading.states, dict.fromkeys(reading.shards, Stamp(NOW)))
    assert said("order") == nothing | {"records": 0}
    assert said("offsets") == nothing | {"facts": 0}


def test_where_there_is_no_queue_none_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for job in (order, offsets, driver):
        assert job.main(["--root", str(tmp_path / "no"), "--dry-run"]) == Exit.UNUSABLE
        assert "there is no queue" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
