"""One system in one round: paced at 1,000/s, as fast as it goes, and its work queue."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.clients.load import PARTITIONS
from bench.peers.processes import Client, Failed
from bench.peers.systems.system import DRAINS, SIZES, Speaks, System
from bench.peers.usage import Used, pss_mib, used

RATE = 1_000
BATCH = 10
_PATIENCE_S = 120.0
"""Seconds that a phase may take longer than it should, before the run counts as failed."""


@dataclass(frozen=True)
class Plan:
    """How long each phase takes."""

    warm_up_s: float = 8.0
    spark_warm_up_s: float = 20.0
    paced_s: float = 10.0
    fast_s: float = 4.0
    fast_most: int = 150_000
    work_records: int = 30_000
    workers: int = 48
    drain_bytes: int = 300_000_000
    drain_most: int = 1_000_000
    """Records that are drained: so many bytes, and no more records than this."""

    def drained(self, size: int) -> int:
        """Records of that size that stand in the log, as many in each partition."""
        return min(self.drain_bytes // size, self.drain_most) // PARTITIONS * PARTITIONS


QUICK = Plan(2.0, 8.0, 3.0, 1.5, 30_000, 5_000, 16, 40_000_000, 100_000)


class Round:
    """A started system with its clients."""

    def __init__(self, system: System, plan: Plan) -> None:
        self._system, self._plan = system, plan
        self._clients: list[Client] = []
        self._phase = 0
        self._sender = self._client("send", system.sender())
        self._sender.answer(_PATIENCE_S)
        self._receivers = {
            name: self._client("receive", speaks) for name, speaks in system.receivers().items()
        }
        for receiver in self._receivers.values():
            receiver.answer(_PATIENCE_S)

    def _client(self, role: str, speaks: Speaks) -> Client:
        client = Client(speaks.python, role, speaks.adapter, speaks.at)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """End the clients."""
        for client in reversed(self._clients):
            client.stop()

    def measured(self) -> dict[str, Any]:
        """All figures of the round."""
        plan, found = self._plan, dict[str, Any]()
        warm_up_s = plan.spark_warm_up_s if self._system.has_spark else plan.warm_up_s
        self._send(SIZES[0], RATE, warm_up_s, 0.0)
        for size in SIZES:
            found[f"paced_{size}"] = self._send(size, RATE, plan.paced_s, 1.0)
        for size in SIZES:
            found[f"fast_{size}"] = self._send(size, 0, plan.fast_s, 0.0)
        found["pss_mib"] = pss_mib(self._system.pids() or [client.pid for client in self._clients])
        if (worker := self._system.worker("work")) is not None:
            found["work"] = self._work(worker)
        for topic, size in DRAINS.items():
            if (drainer := self._system.drainer(topic)) is not None:
                found[topic.replace("-", "_")] = self._drain(topic, size, drainer)
        return found

    def _used(self) -> tuple[Used, Used]:
        """By the system, and by its clients."""
        return used(self._system.pids()), used(client.pid for client in self._clients)

    def _send(self, size: int, rate: int, seconds: float, settling_s: float) -> dict[str, Any]:
        """One phase; `settling_s` at its beginning do not count."""
        self._phase += 1
        skip = int(rate * settling_s)
        most = int(rate * (seconds + settling_s)) if rate else self._plan.fast_most
        for receiver in self._receivers.values():
            receiver.order(phase=self._phase, skip=skip, paced=bool(rate))
            receiver.answer(_PATIENCE_S)
        before = self._used()
        self._sender.order(
            phase=self._phase, size=size, rate=rate, seconds=seconds, most=most, skip=skip
        )
        sent = self._sender.answer(seconds + settling_s + _PATIENCE_S)
        for receiver in self._receivers.values():
            receiver.order(count=sent["sent"], within_s=_PATIENCE_S)
        received = {
            name: receiver.answer(_PATIENCE_S + 10) for name, receiver in self._receivers.items()
        }
        services, clients = (now - then for now, then in zip(self._used(), before, strict=True))
        count, first = sent["sent"], next(iter(received.values()))
        whole = all(one["received"] == count for one in received.values())
        through_s = (first["ended"] - sent["began"]) / 1e9
        return {
            "records": count,
            "missing": 0 if whole else max(count - one["received"] for one in received.values()),
            "acked": percentiles(sent["took_ns"]),
            **{name: percentiles(one["took_ns"]) for name, one in received.items()},
            "acked_per_s": round(count / ((sent["ended"] - sent["began"]) / 1e9)),
            "through_per_s": round(count / through_s) if whole else None,
            "cpu_s_per_million": round((services.cpu_s + clients.cpu_s) / count * 1e6, 1),
            "services_cpu_s_per_million": round(services.cpu_s / count * 1e6, 1),
            "written_per_byte": round(
                (services.written_bytes + clients.written_bytes) / (count * size), 2
            ),
        }

    def _fill(self, topic: str, size: int, count: int) -> int:
        """Send so many records, as fast as it goes; how many were sent."""
        filling = self._client("send", self._system.sender(topic))
        filling.answer(_PATIENCE_S)
        filling.order(phase=99, size=size, rate=0, seconds=_PATIENCE_S, most=count, skip=0)
        sent: int = filling.answer(2 * _PATIENCE_S)["sent"]
        filling.stop()
        self._clients.remove(filling)
        return sent

    def _drain(self, topic: str, size: int, speaks: Speaks) -> dict[str, Any]:
        """Records a second that a group which begins at the earliest record reads."""
        count = self._plan.drained(size)
        if (sent := self._fill(topic, size, count)) != count:
            raise Failed(f"{sent} of {count} records were sent in {_PATIENCE_S:.0f} s")
        self._system.stands(topic, count, _PATIENCE_S)
        client = self._client("drain", speaks)
        before = used(self._system.pids())
        client.order(count=count, group=topic, within_s=_PATIENCE_S)
        found = client.answer(_PATIENCE_S + 30)
        services = used(self._system.pids()) - before
        client.stop()
        self._clients.remove(client)
        each = count // PARTITIONS
        if found["received"] == count and (
            found["bytes"] != count * size
            or found["offsets"] != PARTITIONS * each * (each - 1) // 2
        ):
            raise Failed(f"not each record came once: {found}")
        rate = found["counted"] / found["seconds"]
        return {
            "records": count,
            "missing": count - found["received"],
            "per_s": round(rate) if found["received"] == count else None,
            "mb_per_s": round(rate * size / 1e6, 1) if found["received"] == count else None,
            "cpu_s_per_million": round(
                found["cpu_s"] / found["counted"] * 1e6 + services.cpu_s / count * 1e6, 2
            ),
            "services_cpu_s_per_million": round(services.cpu_s / count * 1e6, 2),
        }

    def _work(self, speaks: Speaks) -> dict[str, Any]:
        """Deliveries and acks a second of the work queue, in batches of ten."""
        count = self._fill("work", SIZES[0], self._plan.work_records)
        workers = [self._client("work", speaks) for _ in range(2)]
        for worker in workers:
            worker.order(threads=self._plan.workers // 2, batch=BATCH)
        settled: Counter[int] = Counter()
        bucket_ns = 0
        for worker in workers:
            answer = worker.answer(2 * _PATIENCE_S)
            bucket_ns = answer["bucket_ns"]
            settled.update({int(at): number for at, number in answer["settled"].items()})
        return {
            "records": count,
            "settled": settled.total(),
            "workers": self._plan.workers,
            "per_s": rate_of(settled, bucket_ns),
        }


def percentiles(took_ns: list[int]) -> dict[str, float] | None:
    """Milliseconds; None if nothing was noted."""
    if not took_ns:
        return None
    p50, p90, p99 = np.percentile(np.array(took_ns) / 1e6, [50, 90, 99])
    return {"p50_ms": round(p50, 2), "p90_ms": round(p90, 2), "p99_ms": round(p99, 2)}


def rate_of(settled: Counter[int], bucket_ns: int) -> int | None:
    """Records a second from one tenth to nine tenths: without the start and the stragglers."""
    total, seen, began = settled.total(), 0, None
    for at in sorted(settled):
        seen += settled[at]
        if began is None and seen >= total / 10:
            began = (at, seen)
        elif began is not None and seen >= total * 9 / 10:
            return round((seen - began[1]) / ((at - began[0]) * bucket_ns / 1e9))
    return None


@contextmanager
def _started(kind: type[System]) -> Iterator[System]:
    with tempfile.TemporaryDirectory(prefix=f"bench-{kind.name}-") as folder:
        system = kind(Path(folder))
        try:
            system.start()
            yield system
        except BaseException:
            for log in sorted(Path(folder).glob("*.log")):
                sys.stderr.write(f"-- {log.name}\n{log.read_text(errors='replace')[-1_500:]}\n")
            raise
        finally:
            system.stop()


def measure(kind: type[System], plan: Plan) -> dict[str, Any]:
    """Start a system, measure, end it."""
    with _started(kind) as system:
        running = None
        try:
            running = Round(system, plan)
            return running.measured()
        finally:
            if running is not None:
                running.close()
