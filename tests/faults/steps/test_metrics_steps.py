"""The metrics job on real tables: what the hours say, killed at each step, started twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from jobs.measuring.history import said as instant
from lakequeue.records import Epoch, Offset, Partition, Stamp
from lakequeue.steps import Step
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.groups.history import read_group_snapshot
from queue_tables.groups.state import read_group_state
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.data.wall import HOUR, Wall
from tests.support.kinds import one_now
from tests.support.runs.fold_process import Folder
from tests.support.runs.maintenance_process import run_metrics, start

BEGIN = 480_000 * HOUR
"""An hour, in 2024."""
NOW = BEGIN + 3 * HOUR + 130 * 1_000_000
HEADERS = [[{"key": "h", "value": b"123"}]] * 3
"""Four bytes a record; value and key have two each."""


class Journal:
    """A consumer-service process that writes down what groups do in partition 0.

    The instants of what is said must rise: they are the stamps of its commits.
    """

    def __init__(self, root: QueueRoot, topic: Topic) -> None:
        self._writer = ShardWriter.create(root, "journal", "c")
        self._topic = topic

    def say(self, kind: Kind, group: str, at: int, offset: int, end: int | None = None) -> None:
        mode = "stream" if end is None else "queue"
        fact = Fact(
            kind, group, self._topic.topic, self._topic.topic_id, Partition(0), 0, Epoch(1),
            Offset(offset), at=at, mode=mode, end_offset=None if end is None else Offset(end),
        )  # fmt: skip
        self._writer.append(to_arrow([fact]), Stamp(at))


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """Three hours: 3 records, none, 6; a stream group and a queue group go along."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    time = Wall(BEGIN)
    log = LogBuilder(root, wall=time)
    topic = log.topic("orders", partitions=2)
    log.append(topic, ["a1", "a2", "a3"], key="kk", headers=HEADERS)
    time.now = BEGIN + 2 * HOUR
    log.append(topic, ["b1", "b2", "b3"], key="kk", headers=HEADERS)
    log.append(topic, ["c1", "c2", "c3"], key="kk", headers=HEADERS)
    journal = Journal(root, topic)
    journal.say(Kind.COMMITTED, "stream", BEGIN + 1, 1)
    journal.say(Kind.ACKED, "queue", BEGIN + 2, 1, 2)
    journal.say(Kind.COMMITTED, "stream", BEGIN + 2 * HOUR + 1, 4)
    journal.say(Kind.ACKED, "queue", BEGIN + 2 * HOUR + 2, 3, 5)
    Folder(root, 1).drain()
    # After the hours: not in them.
    journal.say(Kind.COMMITTED, "stream", BEGIN + 3 * HOUR, 6)
    journal.say(Kind.ACKED, "queue", BEGIN + 3 * HOUR + 1, 0, 1)
    time.now = BEGIN + 3 * HOUR
    log.append(topic, ["d1"], key="kk")
    return root


def told(root: QueueRoot) -> list[tuple[Any, ...]]:
    """Rows of partition 0, as another engine reads them."""
    rows = DeltaTable(f"{root.uri}/metrics").to_pyarrow_table().to_pylist()
    assert {r["topic"] for r in rows} <= {"orders"}
    columns = ("hour", "group", "records_in", "bytes_in", "end_offset", "consumed", "records_out")
    found = [
        tuple(r[c] for c in (*columns, "bytes_out", "lag")) for r in rows if not r["partition"]
    ]
    return sorted(found, key=lambda row: (row[0], row[1] or ""))


def kept(root: QueueRoot) -> dict[str, int]:
    """Instant → rows, of what is kept of groups, as another engine reads it."""
    rows = DeltaTable(f"{root.uri}/group_history").to_pyarrow_table().column("as_of")
    counted = Counter(instant(at) for at in rows.cast("int64").to_pylist())
    return dict(sorted(counted.items()))


HOURS = ["2024-10-04T00", "2024-10-04T01", "2024-10-04T02"]
RAN = [f"2024-10-04T{hour:02}" for hour in (1, 2, 3)]
LAST = [
    (HOURS[2], None, 6, 48, 9, None, None, None, None),
    (HOURS[2], "queue", None, None, 9, 3, 2, 16, 6),
    (HOURS[2], "stream", None, None, 9, 4, 3, 24, 5),
]


def by_the_hour(root: QueueRoot) -> list[dict[str, Any]]:
    """As it is run: soon after each hour."""
    return [run_metrics(root, NOW - n * HOUR) for n in (2, 1, 0)]


def test_each_hour_says_what_came_in_and_went_out_and_what_was_left(root: QueueRoot) -> None:
    dry = run_metrics(root, NOW, dry_run=True)
    reports = by_the_hour(root)
    assert [report["hours"] for report in reports] == [[hour] for hour in HOURS]
    assert dry["hours"] == HOURS
    assert told(root) == [
        (HOURS[0], None, 3, 24, 3, None, None, None, None),
        (HOURS[0], "queue", None, None, 3, 1, None, None, 2),
        (HOURS[0], "stream", None, None, 3, 1, None, None, 2),
        (HOURS[1], None, 0, 0, 3, None, None, None, None),
        (HOURS[1], "queue", None, None, 3, 1, 0, 0, 2),
        (HOURS[1], "stream", None, None, 3, 1, 0, 0, 2),
        *LAST,
    ]
    assert run_metrics(root, NOW) == {"hours": [], "rows": 0, "groups_kept_as_of": None}


def test_once_an_hour_it_is_put_down_where_groups_are(root: QueueRoot) -> None:
    dry = run_metrics(root, NOW, dry_run=True)
    assert dry["groups_kept_as_of"] is not None
    assert kept(root) == {}
    said = [report["groups_kept_as_of"] for report in by_the_hour(root)]
    assert [moment[:16] for moment in said] == [f"{hour}:02" for hour in RAN]
    assert run_metrics(root, NOW)["groups_kept_as_of"] is None
    assert list(kept(root)) == said
    moment = read_group_snapshot(root, NOW + HOUR)
    assert moment is not None
    assert moment.states == read_group_state(root).states
    (topic,) = TopicStore(root).list()
    assert moment.marks[f"offset/{topic.topic_id}/0"] == 10
    assert not [mark for mark in moment.marks if mark.startswith("inbox/")]
    older = read_group_snapshot(root, NOW - HOUR // 2)
    assert older is not None
    assert said[1] == instant(older.as_of)
    assert read_group_snapshot(root, BEGIN) is None


def test_a_run_that_comes_too_late_does_not_guess_where_groups_were(root: QueueRoot) -> None:
    assert run_metrics(root, NOW)["hours"] == HOURS
    rows = told(root)
    assert [row[:2] for row in rows] == [
        *((hour, None) for hour in HOURS),
        *((HOURS[2], group) for group in ("queue", "stream")),
    ]
    assert [row[5:] for row in rows[3:]] == [(3, None, None, 6), (4, None, None, 5)]


def test_the_hour_under_way_is_nobodys_yet(root: QueueRoot) -> None:
    assert run_metrics(root, BEGIN + HOUR + 119 * 1_000_000)["hours"] == []
    assert run_metrics(root, BEGIN + HOUR + 120 * 1_000_000)["hours"] == HOURS[:1]


CRASHES = [*(s for s in Step if s.startswith("metrics.")), f"{Step.METRICS_DATA_WRITTEN}:2"]


@pytest.mark.parametrize("crash", one_now(CRASHES))
def test_killed_at_a_step_the_next_run_ends_it_and_no_hour_is_there_twice(
    root: QueueRoot, crash: str
) -> None:
    assert start("metrics", root, NOW, "--crash-at", crash).wait(110) == -9
    before = told(root)
    run_metrics(root, NOW)
    after = told(root)
    assert [row for row in after if row in before] == before
    assert [row[0] for row in after if row[1] is None] == HOURS
    assert len(kept(root)) == 1
    assert run_metrics(root, NOW)["hours"] == []


def test_runs_at_once_measure_each_hour_once(root: QueueRoot) -> None:
    runs = [start("metrics", root, NOW) for _ in range(3)]
    assert [run.wait(110) for run in runs] == [0, 0, 0]
    assert [row[0] for row in told(root) if row[1] is None] == HOURS
    assert len(kept(root)) == 1
