"""`make profile`: where the time and the CPU of a record go; docs/benchmarks/profile.{md,json}.

    python -m bench.profiling [--seconds 30] [--out docs/benchmarks]

First what Spark and the libraries take alone. Then a queue as `lakequeue up` starts it, 8
partitions, records of 1 kB, one producer and one consumer: 1,000 records/s, where the stations of
each record and the CPU of each process are noted; the same again under py-spy, which samples all
Python processes; then as fast as it goes, without and with py-spy. In the same way requests of 500
records in JSON, such a group that reads them, and a consumer that drains the log. Flame graphs go
to profile/ beside the page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from bench.http import bulk
from bench.peers.clients.load import PARTITIONS
from bench.peers.processes import REPOSITORY, Client
from bench.peers.usage import cpu_s, tree
from bench.profiling import counters, floors, timeline
from bench.profiling.page import render
from bench.profiling.stacks import PY_SPY, Recording, by_stage
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions

RATE, SIZE, WARM_UP_S, FAST_S = 1_000, 1_000, 20.0, 10.0
SHORT_S = 3.0
"""Of what is over in some seconds, so much is sampled."""
_PATIENCE_S = 120.0


class Profiled:
    """The queue and its two clients."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._folder, self._cluster = folder, cluster
        at = {"topic": "bench", "ingest": cluster.ingest_urls[0]}
        at["consumer"] = cluster.consumer_urls[0]
        self.producer = Client(Path(sys.executable), "send", "lakequeue", at)
        self.consumer = Client(Path(sys.executable), "receive", "lakequeue", at)
        for client in (self.producer, self.consumer):
            client.answer(_PATIENCE_S)
        self._phase = self._sent = self._in_json = self._groups = self._recordings = 0
        self._at = at
        self._drainer: Client | None = None

    def close(self) -> None:
        """End the clients."""
        for client in (self.producer, self.consumer, self._drainer):
            if client is not None:
                client.stop()

    def processes(self) -> dict[str, list[int]]:
        """Process ids by what they are; Python's and Java's apart."""
        found: dict[str, list[int]] = {}
        children = {child.name: child.pid for child in self._cluster.children}
        children |= {"producer": self.producer.pid, "consumer": self.consumer.pid}
        if self._drainer is not None:
            children["consumer"] = self._drainer.pid
        for name, pid in children.items():
            for process in tree([pid]):
                kind = name if process.pid == pid else f"{name}: Spark's Python"
                if "java" in process.name():
                    kind = name if process.pid == pid else f"{name}: JVM"
                found.setdefault(kind, []).append(process.pid)
        return found

    def send(self, rate: int, seconds: float, *, numbers: bool = False) -> dict[str, Any]:
        """One phase; when everything has been received, what both clients say."""
        self._phase += 1
        most = int(rate * seconds) if rate else 10_000_000
        self.consumer.order(phase=self._phase, skip=0, paced=numbers)
        self.consumer.answer(_PATIENCE_S)
        self.producer.order(
            phase=self._phase, size=SIZE, rate=rate, seconds=seconds, most=most, skip=0
        )
        sent = self.producer.answer(seconds + _PATIENCE_S)
        self.consumer.order(count=sent["sent"], within_s=_PATIENCE_S, numbers=numbers)
        got = self.consumer.answer(_PATIENCE_S + 10)
        if got["received"] != sent["sent"]:
            raise RuntimeError(f"{got['received']} of {sent['sent']} records have come")
        self._sent += int(sent["sent"])
        return {"sent": sent, "received": got}

    def in_json(self) -> int:
        """So many records in requests of 500, in JSON, until all are in `log`."""
        url, root = self._cluster.ingest_urls[0], self._cluster.root
        there = bulk.ordered(root)
        sent = bulk.send(url, FAST_S)
        while bulk.ordered(root) < there + sent:
            time.sleep(0.05)
        self._in_json += sent
        return sent

    def out_json(self) -> int:
        """All of these, read in JSON by a new group."""
        self._groups += 1
        bulk.read(self._cluster.consumer_urls[0], self._in_json, f"json-{self._groups}")
        return self._in_json

    def drained(self) -> int:
        """All others, read by a new group of the SDK."""
        assert self._drainer is not None
        self._groups += 1
        self._drainer.order(count=self._sent, group=f"drain-{self._groups}", within_s=_PATIENCE_S)
        got = self._drainer.answer(_PATIENCE_S + 10)
        if got["received"] != self._sent:
            raise RuntimeError(f"{got['received']} of {self._sent} records were drained")
        return self._sent

    def begin_to_drain(self) -> None:
        """From now on the consumer is one that drains."""
        self.consumer.stop()
        self._drainer = Client(Path(sys.executable), "drain", "lakequeue", self._at)

    def spent(self, work: Callable[[], int]) -> dict[str, float]:
        """The CPU of each process while so many records are worked on: seconds per million."""
        before = {pid: cpu_s([pid]) for pids in self.processes().values() for pid in pids}
        count = work()
        return {
            name: round(sum(cpu_s([pid]) - before.get(pid, 0.0) for pid in pids) / count * 1e6, 1)
            for name, pids in self.processes().items()
        }

    def cpu(self, rate: int, seconds: float, *, numbers: bool = False) -> dict[str, Any]:
        """A phase with the CPU of each process, in seconds per million records."""
        phase: dict[str, Any] = {}

        def work() -> int:
            phase.update(self.send(rate, seconds, numbers=numbers))
            return int(phase["sent"]["sent"])

        spent = self.spent(work)
        return {**phase, "records": phase["sent"]["sent"], "cpu_s_per_million": spent}

    def sampled(
        self, work: Callable[[], object], seconds: float, form: str = "raw"
    ) -> dict[str, list[Path]]:
        """`work` under py-spy, for so many seconds; its output by process."""
        running: list[tuple[str, Recording]] = []
        suffix = "svg" if form == "flamegraph" else "txt"
        self._recordings += 1
        for name, pids in self.processes().items():
            if "JVM" in name or name.startswith("zookeeper"):
                continue
            for pid in pids:
                out = self._folder / f"{_file(name)}-{self._recordings}-{pid}.{suffix}"
                running.append((name, Recording(pid, seconds, out, form)))
        work()
        found: dict[str, list[Path]] = {}
        for name, recording in running:
            problem = recording.wait(_PATIENCE_S)
            if problem is None:
                found.setdefault(name, []).append(recording.out)
            elif "Spark's Python" not in name:  # those may have ended meanwhile
                raise RuntimeError(f"py-spy at {name}: {problem}")
        return found


def _file(name: str) -> str:
    return name.replace("'s ", "-").replace(": ", "-").lower()


def _stages(outputs: dict[str, list[Path]]) -> dict[str, dict[str, float]]:
    """Of each process: the share of each stage of its samples."""
    found = {}
    for name, files in outputs.items():
        samples: Counter[str] = Counter()
        for file in files:
            samples += by_stage(file.read_text().splitlines())
        total = samples.total()
        if total:
            found[name] = {stage: round(n / total, 3) for stage, n in samples.most_common()}
    return found


def _told(phase: dict[str, Any]) -> tuple[dict[int, float], dict[int, float]]:
    """When each record was due and when it was received, in wall-clock seconds."""
    ahead = time.time_ns() - time.monotonic_ns()
    began = phase["sent"]["began"]
    sent = {n: (began + n * 1_000_000_000 // RATE + ahead) / 1e9 for n in range(phase["records"])}
    got = phase["received"]
    received = {
        number: sent[number] + took / 1e9
        for number, took in zip(got["numbers"], got["took_ns"], strict=True)
    }
    return sent, received


def _urls(cluster: Cluster) -> dict[str, str]:
    """Who answers `/metrics`."""
    return {
        "ingest-1": cluster.ingest_urls[0],
        "driver-1": cluster.driver_urls[0],
        "consumer-1": cluster.consumer_urls[0],
    }


def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """All phases."""
    where = machine.describe()
    alone = floors.measured()
    root = folder / "queue"
    with Cluster(ClusterOptions(root=str(root), log_level="debug")) as cluster:
        cluster.wait_ready()
        with Admin(cluster.ingest_urls, cluster.consumer_urls) as admin:
            for topic in ("bench", bulk.TOPIC):
                admin.create_topic(topic, partitions=PARTITIONS)
        running = Profiled(folder, cluster)

        def steadily() -> dict[str, Any]:
            return running.send(RATE, seconds)

        try:
            running.send(RATE, WARM_UP_S)
            driver = cluster.log_dir / "driver-1.log"
            said = len(driver.read_text().splitlines())
            urls = _urls(cluster)
            before = counters.scraped(urls)
            paced = running.cpu(RATE, seconds, numbers=True)
            counted = counters.between(before, counters.scraped(urls), paced["records"])
            lines = driver.read_text().splitlines()[said:]
            sent, received = _told(paced)
            found = timeline.stations(root, timeline.batches(lines), sent, received)
            cpu = {"paced": paced["cpu_s_per_million"]}
            samples = {"paced": _stages(running.sampled(steadily, seconds - 2))}
            flames = running.sampled(steadily, seconds - 2, "flamegraph")
            fast = running.cpu(0, FAST_S)
            cpu["fast"] = fast["cpu_s_per_million"]
            samples["fast"] = _stages(running.sampled(lambda: running.send(0, FAST_S), FAST_S - 2))
            ways = {
                "json_in": (running.in_json, FAST_S - 2),
                "json_out": (running.out_json, SHORT_S),
                "drained": (running.drained, SHORT_S),
            }
            for way, (work, sampled_s) in ways.items():
                if way == "drained":
                    running.begin_to_drain()
                work()  # warm
                cpu[way] = running.spent(work)
                samples[way] = _stages(running.sampled(work, sampled_s))
        finally:
            running.close()
    return {
        "machine": where,
        "floors": alone,
        "records": len(found),
        "of": paced["records"],
        "stages": timeline.shares(found),
        "triggers_ms": timeline.triggers(lines),
        "counted": counted,
        "cpu": cpu,
        "fast_per_s": round(fast["records"] * 1e9 / (
            fast["received"]["ended"] - fast["sent"]["began"])),
        "samples": samples,
        "flames": {name: str(files[0]) for name, files in flames.items()},
    }  # fmt: skip


def main() -> None:
    """Measure, and write the page, the figures and the flame graphs."""
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/benchmarks")
    args = parser.parse_args()
    if not PY_SPY.exists():
        parser.error("py-spy is not installed: make .venv/peers/.made-from")
    with tempfile.TemporaryDirectory(prefix="profile-") as name:
        results = measure(Path(name), args.seconds)
        flames = args.out / "profile"
        flames.mkdir(parents=True, exist_ok=True)
        for process, file in results["flames"].items():
            target = flames / f"{_file(process)}.svg"
            target.write_text(Path(file).read_text())
            results["flames"][process] = f"profile/{target.name}"
    (args.out / "profile.json").write_text(json.dumps(results, indent=1) + "\n")
    page = render(results)
    (args.out / "profile.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
