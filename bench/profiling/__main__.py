"""`make profile`: where the time and the CPU of a record go; docs/benchmarks/profile.{md,json}.

    python -m bench.profiling [--seconds 30] [--out docs/benchmarks]

First what Spark and the libraries take alone. Then a queue as `lakequeue up` starts it, 8
partitions, records of 1 kB, one producer and one consumer: 1,000 records/s, where the stations of
each record and the CPU of each process are noted; the same again under py-spy, which samples all
Python processes; then as fast as it goes, without and with py-spy. Flame graphs go to profile/
beside the page.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench import machine
from bench.peers.clients.load import PARTITIONS
from bench.peers.processes import REPOSITORY, Client
from bench.peers.usage import cpu_s, tree
from bench.profiling import counters, floors, timeline
from bench.profiling.page import render
from bench.profiling.stacks import PY_SPY, Recording, by_stage
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions

RATE, SIZE, WARM_UP_S, FAST_S = 1_000, 1_000, 20.0, 10.0
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
        self._phase = 0

    def close(self) -> None:
        """End the clients."""
        self.producer.stop()
        self.consumer.stop()

    def processes(self) -> dict[str, list[int]]:
        """Process ids by what they are; Python's and Java's apart."""
        found: dict[str, list[int]] = {}
        children = {child.name: child.pid for child in self._cluster.children}
        children |= {"producer": self.producer.pid, "consumer": self.consumer.pid}
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
        return {"sent": sent, "received": got}

    def cpu(self, rate: int, seconds: float, *, numbers: bool = False) -> dict[str, Any]:
        """A phase with the CPU of each process, in seconds per million records."""
        before = {pid: cpu_s([pid]) for pids in self.processes().values() for pid in pids}
        phase = self.send(rate, seconds, numbers=numbers)
        count = phase["sent"]["sent"]
        spent = {
            name: round(sum(cpu_s([pid]) - before.get(pid, 0.0) for pid in pids) / count * 1e6, 1)
            for name, pids in self.processes().items()
        }
        return {**phase, "records": count, "cpu_s_per_million": spent}

    def sampled(self, rate: int, seconds: float, form: str) -> dict[str, list[Path]]:
        """A phase under py-spy; its output by process."""
        running: list[tuple[str, Recording]] = []
        suffix = "svg" if form == "flamegraph" else "txt"
        for name, pids in self.processes().items():
            if "JVM" in name or name.startswith("zookeeper"):
                continue
            for pid in pids:
                out = self._folder / f"{_file(name)}-{self._phase}-{pid}.{suffix}"
                running.append((name, Recording(pid, seconds - 2, out, form)))
        self.send(rate, seconds)
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
            admin.create_topic("bench", partitions=PARTITIONS)
        running = Profiled(folder, cluster)
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
            stages_paced = _stages(running.sampled(RATE, seconds, "raw"))
            flames = running.sampled(RATE, seconds, "flamegraph")
            fast = running.cpu(0, FAST_S)
            stages_fast = _stages(running.sampled(0, FAST_S, "raw"))
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
        "cpu": {"paced": paced["cpu_s_per_million"], "fast": fast["cpu_s_per_million"]},
        "fast_per_s": round(fast["records"] * 1e9 / (
            fast["received"]["ended"] - fast["sent"]["began"])),
        "samples": {"paced": stages_paced, "fast": stages_fast},
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
