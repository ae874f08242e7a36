"""Records that cannot be ordered keep coming to one topic: what another topic's records wait for.

Measured: from the commit of an ingest shard until `log` has passed it, at 500 records/s beside some
100/s of which a part is poison. Prints the figures.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import jobs.rows.id_hash
import queue_tables.log.writer
from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.registry import register
from coordination.zookeeper.session import Session
from lakequeue.records import ShardName, Stamp
from lakequeue.settings import Settings
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from queue_tables.upkeep.health import look
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.rows import inbox_rows, raw_texts
from tests.support.faults.foreign import BY_HAND
from tests.support.faults.patching import environ
from tests.support.runs.order_process import Orderer
from tests.support.services.order_driver import Driver

pytestmark = [pytest.mark.slow, pytest.mark.matrix, pytest.mark.timeout(300)]

SECONDS = 11.0
LEFT_OUT_S = 1.0  # the first commits wait for a driver that was idle, whatever is in them
EVERY_S = 0.02
MARKER = b"poison"


def sound(rows: pa.Table) -> pa.Table:
    return rows


def malformed(rows: pa.Table) -> pa.Table:
    """One id of five is no UTF-8."""
    ids = raw_texts([b"\xff" if n % 5 == 0 else None for n in range(rows.num_rows)])
    at = rows.schema.get_field_index("message_id")
    return rows.set_column(at, rows.schema.field(at), ids)


def unorderable(rows: pa.Table) -> pa.Table:
    """One value of five makes writing fail."""
    return _poisoned(rows, 5)


def all_unorderable(rows: pa.Table) -> pa.Table:
    return _poisoned(rows, 1)


def unreadable(rows: pa.Table) -> pa.Table:
    """One id of five makes reading fail."""
    ids = pa.array([MARKER.decode() if n % 5 == 0 else None for n in range(rows.num_rows)])
    at = rows.schema.get_field_index("message_id")
    return rows.set_column(at, rows.schema.field(at), ids)


def flood(rows: pa.Table) -> pa.Table:
    """A thousand of them a second."""
    return _poisoned(pa.concat_tables([rows.slice(0, 1)] * 100), 1)


def _poisoned(rows: pa.Table, each: int) -> pa.Table:
    values = [MARKER if n % each == 0 else b"v" for n in range(rows.num_rows)]
    at = rows.schema.get_field_index("value")
    return rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))


class Run:
    """Two shards, a leader, and whoever looks when the first shard's commits are passed."""

    def __init__(self, root: QueueRoot, spoil: Callable[[pa.Table], pa.Table]) -> None:
        store = TopicStore(root)
        good, bad = (store.create(name, partitions=1)[0].topic_id for name in ("good", "bad"))
        self._root = root
        self._good = inbox_rows([b"v"] * 10, good)
        self._bad = spoil(inbox_rows([b"v"] * 10, bad))
        self._sent: dict[Stamp, float] = {}
        self.waited: list[float] = []
        self._done = threading.Event()

    def _send(self) -> None:
        one, two = (ShardWriter.create(self._root, "inbox", name) for name in ("one", "two"))
        self._shard: ShardName = one.name
        began = time.monotonic()
        pause, end, number = threading.Event(), began + SECONDS, 0
        self._counts_from = began + LEFT_OUT_S
        while time.monotonic() < end:
            stamp = Stamp(time.time_ns() // 1_000)
            one.append(self._good, stamp)
            self._sent[stamp] = time.monotonic()
            if number % 5 == 0:
                two.append(self._bad, Stamp(stamp + 1))
            number += 1
            pause.wait(EVERY_S)
        self._done.set()

    def _look(self) -> None:
        marks, pause = LogMarks(self._root), threading.Event()
        while not self._done.is_set() or self._sent:
            mark = WATERMARKS.name(self._shard) if hasattr(self, "_shard") else ""
            passed = marks.read(mark).get(mark, 0) if mark else 0
            now = time.monotonic()
            for stamp in [s for s in list(self._sent) if s <= passed]:
                sent = self._sent.pop(stamp)
                if sent >= self._counts_from:
                    self.waited.append(now - sent)
            pause.wait(0.005)

    def measured(self, epoch: int = 1) -> tuple[float, float]:
        """p50 and p99, in seconds; ordered in this process."""
        orderer = Orderer(self._root, epoch, whole=True)
        threads = self._threads()
        pause = threading.Event()
        while not self._done.is_set() or orderer.step() is not None or self._sent:
            orderer.drain()
            pause.wait(0.05)  # as Spark's trigger
        return self._ended(threads)

    def watched(self) -> tuple[float, float]:
        """The same; a driver that runs already orders."""
        return self._ended(self._threads())

    def _threads(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=t, daemon=True) for t in (self._send, self._look)]
        for thread in threads:
            thread.start()
        return threads

    def _ended(self, threads: list[threading.Thread]) -> tuple[float, float]:
        for thread in threads:
            thread.join()
        found = sorted(self.waited)
        return found[len(found) // 2], found[len(found) * 99 // 100]


KINDS = (sound, malformed, unreadable, unorderable, all_unorderable, flood)


def test_what_other_topics_wait_for(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = queue_tables.log.writer._rendered

    def rendered(rows: pa.Table, compression: str) -> Any:
        if pc.any(pc.match_substring(rows["value"], MARKER.decode())).as_py():
            raise ZeroDivisionError("no page")
        return right(rows, compression)

    def hash_ids(ids: pa.Array) -> Any:
        if pc.any(pc.match_substring(ids, MARKER.decode())).as_py():
            raise ZeroDivisionError("no hash")
        return jobs.rows.id_hash.hash_ids(ids)

    monkeypatch.setattr("jobs.rows.key_projection.hash_ids", hash_ids)
    monkeypatch.setattr("queue_tables.log.writer._rendered", rendered)
    figures: dict[Callable[[pa.Table], pa.Table], float] = {}
    for kind in KINDS:
        root = QueueRoot.open(str(tmp_path_factory.mktemp(kind.__name__)))
        half, most = Run(root, kind).measured()
        aside = len(reject_rows(root))
        figures[kind] = most
        sys.stderr.write(
            f"{kind.__name__}: p50 {half:.3f} s, p99 {most:.3f} s,"
            f" {most / figures[sound]:.1f} of the sound, aside {aside}\n"
        )
        ordered = [row for row in log_rows(root) if row["topic"] == "good"]
        assert [row["offset"] for row in ordered] == list(range(len(ordered)))
        assert (aside > 0) == (kind is not sound)


@pytest.mark.spark
@pytest.mark.zookeeper
def test_what_other_topics_wait_for_of_a_driver(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Through Spark: sound rows before and after each kind, in one run of one driver."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    driver = Driver(root, zookeeper.hosts, "one", tmp_path / "work", "jobs.driver")
    session = Session(zookeeper.hosts, root.queue_id, "senders", Settings().coordination)
    try:
        session.start(30)
        for node in ("one", "two"):  # else their shards are sealed
            register(session, "ingest", node, {})
        driver.start(patches=environ("unorderable")).wait_state("order", "leading")
        Run(root, sound).watched()  # what starts late has started
        for kind in (sound, unreadable, sound, unorderable, sound, flood, sound):
            half, most = Run(root, kind).watched()
            sys.stderr.write(f"driver, {kind.__name__}: p50 {half:.3f} s, p99 {most:.3f} s\n")
    finally:
        driver.close()
        session.stop()
    ordered = [row for row in log_rows(root) if row["topic"] == "good"]
    assert [row["offset"] for row in ordered] == list(range(len(ordered)))
    assert {row["reason"] for row in reject_rows(root)} == {"unorderable"}


FOREIGN = {
    "compact": ("log", "delta-rs compact"),
    "by hand": ("log", BY_HAND),
}
"""What somebody does again and again to which table, who takes the guard off each time."""


def test_what_records_wait_for_beside_an_engine_that_gets_through(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Without it first, and again after each, on the same root."""
    for name, (table, call) in FOREIGN.items():
        root = QueueRoot.open(str(tmp_path_factory.mktemp(name)))
        figures = {"before": Run(root, sound).measured()}
        with foreign_writer(root, table, call) as landed:
            figures[name] = Run(root, sound).measured(2)
        figures["after"] = Run(root, sound).measured(3)
        for when, (half, most) in figures.items():
            ratio = most / figures["before"][1]
            sys.stderr.write(f"{name}, {when}: p50 {half:.3f} s, p99 {most:.3f} s, {ratio:.1f}\n")
        sys.stderr.write(f"{name}: landed {landed[0]} times\n")
        # Beside a queue that commits all the time, delta-rs mostly meets the guard again.
        assert landed[0] > 0 or call != BY_HAND
        # Who takes the guard off commits as well, and is named for that.
        assert any(trouble.table == table for trouble in look(root))
        assert figures[name][1] <= 2 * figures["before"][1]
        ordered = [row for row in log_rows(root) if row["topic"] == "good"]
        assert [row["offset"] for row in ordered] == list(range(len(ordered)))
        assert reject_rows(root) == []


@contextmanager
def foreign_writer(root: QueueRoot, table: str, call: str) -> Iterator[list[int]]:
    """A process that writes; how often, when it has ended."""
    module = ["-m", "tests.support.faults.foreign", "--root", root.uri]
    command = [sys.executable, *module, "--table", table, "--call", call]
    landed: list[int] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as writer:
        yield landed
        said, _ = writer.communicate()
        landed.append(int(said))
