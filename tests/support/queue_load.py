"""A load on a queue group, with faults, and the verdict on its history.

Two consumer-service nodes, an ingest node and the order job (without Spark) as real parts. Workers
nack at random, some vanish without a word, and one of the two nodes is killed.

    python -m tests.support.queue_load --workers 200 --partitions 4 --records 5000
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.session import Session
from history_checker import GroupRequirements, Requirements, Verdict, check
from history_checker.history import Event, Outcome, Recorder, load
from history_checker.truth import final_read
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.records import Offset, Partition
from lakequeue.wire import DeadLetterHeader
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import FAST

TOPIC, GROUP = "work", "workers"


@dataclass(frozen=True)
class Load:
    """What is done."""

    workers: int = 24
    partitions: int = 2
    records: int = 500
    max_attempts: int = 4
    visibility_ms: int = 4_000
    nack_share: float = 0.05
    poison_share: float = 0.01
    """Records that are nacked at every attempt: they die."""
    crash_share: float = 0.01
    """Of batches: the worker vanishes with it."""
    batch: int = 10
    key_order: bool = False
    kill_at: float = 0.4
    """Share of the records after which a node is killed."""
    seed: int = 1
    timeout_s: float = 150.0
    topic: str = TOPIC
    group: str = GROUP


class Worker:
    """One worker after the other: who vanishes is followed by a new one."""

    def __init__(self, load_: Load, urls: list[str], recorder: Recorder, seed: int) -> None:
        self._load = load_
        self._urls = urls
        self._record = recorder.write
        self._random = random.Random(seed)
        self._http = httpx2.Client(timeout=30)
        self._url = ""
        self._path = ""
        self._polls = 0
        self._heard_ns = 0
        """When the node last took it for alive: after that it may give back what it has."""

    def run(self, stop: threading.Event, done: list[int]) -> None:
        """Work until told to stop; counts its acks."""
        while not stop.is_set():
            try:
                if not self._path:
                    self._join(self._random.choice(self._urls))
                self._round(done)
            except httpx2.HTTPError:
                self._leave()
                stop.wait(0.1)
        self._http.close()

    def _leave(self) -> None:
        """Gone, without a word."""
        self._path = ""
        self._record([Event("leave", t_ns=self._heard_ns, group=self._load.group)])

    def _join(self, url: str) -> None:
        load_ = self._load
        answer = self._http.post(
            f"{url}/v1/groups/{self._load.group}/members",
            json={
                "topics": [load_.topic],
                "mode": "queue",
                "visibility_timeout_ms": load_.visibility_ms,
                "max_attempts": load_.max_attempts,
                "backoff_ms": 50,
                "backoff_max_ms": 400,
                "ordering": "key" if load_.key_order else "none",
                "session_timeout_ms": 3_000,
            },
        )
        if answer.status_code == 201:
            self._url = url
            self._path = f"/v1/groups/{self._load.group}/members/{answer.json()['member_id']}"

    def _round(self, done: list[int]) -> None:
        if not self._path:
            return
        self._polls += 1
        self._record([Event("poll", "invoke", group=self._load.group, poll=self._polls)])
        try:
            answer = self._http.get(
                f"{self._url}{self._path}/records",
                params={"max": self._load.batch, "wait_ms": 1_000},
            )
        finally:
            self._record([Event("poll", group=self._load.group, poll=self._polls)])
        wall = wall_micros()
        if answer.status_code == 307:
            self._leave()
            self._join(answer.headers["Location"].partition("/v1/")[0])
        if answer.status_code != 200:
            if answer.status_code == 404:
                self._leave()
            return
        records = answer.json()["records"]
        self._record(
            self._event(
                "receive",
                "ok",
                r,
                value=r["message_id"],
                wall=wall,
                expires_at=r["deadline"],
                receipt=r["receipt"],
                poll=self._polls,
            )
            for r in records
        )
        self._heard_ns = time.monotonic_ns()
        if records and self._random.random() < self._load.crash_share:
            self._leave()  # its session timeout gives the records back
            return
        if records:
            self._settle(records, done)

    def _settle(self, records: list[dict[str, Any]], done: list[int]) -> None:
        poisoned = round(1 / self._load.poison_share) if self._load.poison_share else 0
        acks: list[dict[str, Any]] = []
        nacks: list[dict[str, Any]] = []
        for r in records:
            poison = poisoned and r["value"]["n"] % poisoned == poisoned - 1
            nack = poison or self._random.random() < self._load.nack_share
            (nacks if nack else acks).append(r)
        self._record(
            self._event(f, "invoke", r, wall=wall_micros())
            for f, some in (("ack", acks), ("nack", nacks))
            for r in some
        )
        self._send(self._url, acks, nacks, done)

    def _send(
        self, url: str, acks: list[dict[str, Any]], nacks: list[dict[str, Any]], done: list[int]
    ) -> None:
        body = {
            "acks": [r["receipt"] for r in acks],
            "nacks": [
                {"receipt": r["receipt"]}
                | ({"delay_ms": self._random.randrange(300)} if self._random.random() < 0.5 else {})
                for r in nacks
            ],
        }
        try:
            answer = self._http.post(f"{url}{self._path}/acks", json=body)
        except httpx2.HTTPError:
            self._record(
                self._event(f, "info", r)
                for f, some in (("ack", acks), ("nack", nacks))
                for r in some
            )
            raise
        said = answer.json()
        settled = {s["receipt"]: s for s in said.get("settled", ())}
        refused = {s["receipt"]: s for s in said.get("refused", ())}
        elsewhere: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
        events: list[Event] = []
        for place, (f, some) in enumerate((("ack", acks), ("nack", nacks))):
            for r in some:
                found = refused.get(r["receipt"])
                if r["receipt"] in settled:
                    events.append(
                        self._event(f, "ok", r, not_before=settled[r["receipt"]].get("due"))
                    )
                    done[0] += f == "ack"
                elif found is None:
                    events.append(self._event(f, "info", r))
                elif found["why"] == "elsewhere":
                    elsewhere.setdefault(found["location"], ([], []))[place].append(r)
                else:
                    events.append(self._event(f, "fail", r))
        self._record(events)
        for location, (some_acks, some_nacks) in elsewhere.items():
            self._send(location, some_acks, some_nacks, done)

    def _event(self, f: str, kind: Outcome, record: dict[str, Any], **fields: Any) -> Event:
        return Event(
            f,
            kind,
            topic=record["topic"],
            part=record["partition"],
            offset=record["offset"],
            key=record["key"],
            group=self._load.group,
            deliver_count=record["attempt"],
            **fields,
        )


@contextmanager
def _cluster(folder: Path, load_: Load) -> Iterator[tuple[Queue, IngestService, list[NodeProcess]]]:
    with ExitStack() as stack:
        server = EmbeddedZooKeeper(folder / "zookeeper")
        server.start(60)
        stack.callback(server.kill)
        root = QueueRoot.open(str(folder / "queue"))
        session = Session(server.hosts, root.queue_id, "test", FAST)
        session.start()
        stack.callback(session.stop)
        queue = Queue(root, server, session, LogBuilder(root))
        ingest = stack.enter_context(
            IngestService(Path(root.uri), "--zookeeper", server.hosts, node="ingest-1")
        )
        stack.enter_context(ordering(root))
        ingest.create(TOPIC, partitions=load_.partitions)
        threads = str(2 * load_.workers + 32)
        nodes = [
            NodeProcess(queue, name, LAKEQUEUE_CONSUMER__THREADS=threads) for name in ("one", "two")
        ]
        for node in nodes:
            stack.callback(node.kill)
        yield queue, ingest, nodes


def run(load_: Load, folder: Path) -> Verdict:
    """Run the load and judge it. Raises `TimeoutError` when the group is not drained in time."""
    with _cluster(folder, load_) as (queue, ingest, nodes):
        sent = Recorder(folder / "producer.jsonl", "producer")
        for first in range(0, load_.records, 500):
            count = min(500, load_.records - first)
            numbers = range(first, first + count)
            records = [
                {
                    "key": f"k{n % 50}",
                    "value": {"n": n},
                    "partition": n % load_.partitions,
                    "message_id": f"n{n}",
                }
                for n in numbers
            ]
            sent.write(Event("send", "invoke", topic=TOPIC, value=f"n{n}") for n in numbers)
            answer = ingest.send(records, TOPIC, "?wait=ordered&timeout_ms=30000")
            assert answer.status_code == 200, answer.text
            sent.write(Event("send", value=f"n{n}") for n in numbers)
        stop = threading.Event()
        counts: list[list[int]] = []
        threads: list[threading.Thread] = []
        urls = [node.url for node in nodes]
        recorders = [sent]
        for number in range(load_.workers):
            recorders.append(Recorder(folder / f"worker-{number}.jsonl", f"worker-{number}"))
            worker = Worker(load_, urls, recorders[-1], load_.seed * 1_000 + number)
            counts.append([0])
            threads.append(threading.Thread(target=worker.run, args=(stop, counts[-1])))
        began = time.monotonic()
        for thread in threads:
            thread.start()
        deadline = boot_seconds() + load_.timeout_s
        try:
            _wait(
                lambda: sum(c[0] for c in counts) >= load_.kill_at * load_.records,
                deadline,
                "enough is acked to kill a node",
            )
            if load_.kill_at < 1:
                urls.remove(nodes[0].url)
                nodes[0].kill()
            _wait(lambda: _drained(nodes[1].url), deadline, "the group is drained")
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
            for recorder in recorders:
                recorder.close()
        sys.stderr.write(f"drained in {time.monotonic() - began:.1f} s\n")
        history = load(folder.glob("*.jsonl"))
        requirements = GroupRequirements(
            "queue",
            topics=(TOPIC,),
            drained=True,
            max_attempts=load_.max_attempts,
            key_order=load_.key_order,
        )
        events = [*history, *_dead_letters(queue.root), *final_read(queue.root.uri, TOPIC)]
        return check(events, Requirements({GROUP: requirements}))


def _wait(condition: Any, deadline: float, what: str) -> None:
    pause = threading.Event()
    while not condition():
        if boot_seconds() > deadline:
            raise TimeoutError(what)
        pause.wait(0.25)


def _drained(url: str) -> bool:
    try:
        answer = httpx2.get(f"{url}/v1/groups/{GROUP}", timeout=30)
    except httpx2.HTTPError:
        return False
    if answer.status_code != 200:
        return False
    return all(row["lag"] == 0 for row in answer.json()["partitions"])


def _dead_letters(root: QueueRoot) -> list[Event]:
    """The dead letters, as what they were."""
    reader, topics = LogReader(root), TopicStore(root)
    found: list[Event] = []
    for topic in (t for t in topics.list() if t.topic != TOPIC):
        for number in range(topic.partitions):
            at, end = 0, reader.end_offset(topic.topic_id, Partition(number))
            while at < end:
                rows = reader.read_range(topic.topic_id, Partition(number), Offset(at), 10_000)
                found += [_dead(headers) for headers in rows["headers"].to_pylist()]
                at += rows.num_rows
    return found


def _dead(headers: list[dict[str, Any]]) -> Event:
    said = {h["key"]: h["value"].decode() for h in headers}
    return Event(
        "dead",
        topic=TOPIC,
        part=int(said[DeadLetterHeader.PARTITION]),
        offset=int(said[DeadLetterHeader.OFFSET]),
        group=GROUP,
        deliver_count=int(said[DeadLetterHeader.ATTEMPTS]),
    )


def main() -> int:
    """Run it by hand; 1 when there is an anomaly."""
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = Load(workers=200, partitions=4, records=5_000, timeout_s=600.0)
    for name, kind in (("workers", int), ("partitions", int), ("records", int), ("seed", int)):
        parser.add_argument(f"--{name}", type=kind, default=getattr(defaults, name))
    parser.add_argument("--key-order", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        verdict = run(replace(defaults, **vars(args)), Path(folder))
    late = sorted(verdict.late_ms)
    sys.stdout.write(f"{verdict}\n")
    if late:
        sys.stdout.write(f"nacked records late: p99 {late[int(len(late) * 0.99)]:.0f} ms\n")
    return 0 if verdict.ok else 1


if __name__ == "__main__":
    sys.exit(main())
