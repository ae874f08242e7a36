"""A process of the load: sends, receives, works or drains, as the lines of its standard input say.

    python -m bench.peers.clients.load {send|receive|work|drain} ADAPTER PLACE

`PLACE` is JSON. Each record is `phase, moment of sending, number`, in digits, and random hex up to
its size. Clocks are CLOCK_MONOTONIC, of the one machine. Paced records count from the moment at
which they were *due*: a sender that is held up hides nothing.
"""

from __future__ import annotations

import importlib
import json
import operator
import os
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.peers.clients.interface import Drained, Drainer, Place, Receiver, Sender

ADAPTERS = {
    "lakequeue": ("lakequeue_clients", "Lakequeue"),
    "kafka": ("kafka_clients", "Kafka"),
    "rabbitmq": ("rabbitmq_clients", "Rabbit"),
    "redis": ("redis_clients", "Redis"),
    "postgres": ("postgres_clients", "Postgres"),
    "delta": ("delta_clients", "Delta"),
}
RECEIVERS = {
    "commits": ("delta_clients", "CommitReader"),
    "delta-source": ("delta_source", "DeltaSourceReceiver"),
}
WORKERS = {"lakequeue": ("lakequeue_clients", "LakequeueWorker")}
PARTITIONS = 8
HEADER = 34
"""Digits: 2 of the phase, 20 of the moment (ns), 12 of the number."""
WINDOW = 20_000
"""Records that are not acknowledged yet, at most, when sent as fast as it goes."""
_BUCKET_NS = 50_000_000
_MOST_DRAINED = 5_000
"""Records that one call asks for."""


def adapter(role: str, name: str) -> Any:
    """The class that speaks to a system."""
    if role == "send":
        module, kind = ADAPTERS[name][0], ADAPTERS[name][1] + "Sender"
    elif role == "work" and name in WORKERS:
        module, kind = WORKERS[name]
    elif role == "drain":
        module, kind = ADAPTERS[name][0], ADAPTERS[name][1] + "Drainer"
    else:
        module, kind = RECEIVERS.get(name) or (ADAPTERS[name][0], ADAPTERS[name][1] + "Receiver")
    return getattr(importlib.import_module(f"bench.peers.clients.{module}"), kind)


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Acks:
    """Notes when records are acknowledged."""

    def __init__(self) -> None:
        self.sent = array("q")
        self.took = array("q")
        self.count = 0
        self.last = 0

    def __call__(self, numbers: Sequence[int]) -> None:
        """These are acknowledged now."""
        now = time.monotonic_ns()
        for number in numbers:
            self.took[number] = now - self.sent[number]
        self.count += len(numbers)
        self.last = now


class Sending:
    """Phases of sending over one connection."""

    def __init__(self, name: str, place: Place) -> None:
        self._acks = Acks()
        # An adapter keeps what it calls: the acks of the phase at hand.
        self._sender: Sender = adapter("send", name)(place, lambda numbers: self._acks(numbers))

    def phase(self, order: dict[str, Any]) -> dict[str, Any]:
        """Send, wait until all is acknowledged, and say how long it took."""
        self._acks = acks = Acks()
        rate, most, phase, skip = order["rate"], order["most"], order["phase"], order["skip"]
        pads = [os.urandom(order["size"]).hex()[HEADER : order["size"]].encode() for _ in range(64)]
        cpu_s, began = time.process_time(), time.monotonic_ns()
        until = began + int(order["seconds"] * 1e9)
        number = 0
        while number < most:
            due = began + number * 1_000_000_000 // rate if rate else time.monotonic_ns()
            if not rate and due >= until:
                break
            while (left := due - time.monotonic_ns()) > 0:
                self._sender.wait(left / 1e9)
            while not rate and number - acks.count >= WINDOW:
                self._sender.wait(0.002)
            acks.sent.append(due)
            acks.took.append(-1)
            value = b"%02d%020d%012d" % (phase, due, number) + pads[number % len(pads)]
            self._sender.send(number, number % PARTITIONS, value)
            number += 1
        while acks.count < number:
            self._sender.wait(0.002)
        return {
            "sent": number,
            "began": began,
            "ended": acks.last,
            "cpu_s": time.process_time() - cpu_s,
            "took_ns": acks.took[skip:].tolist() if rate else [],
        }

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()


class Receiving(threading.Thread):
    """Receives all the time, and knows what it has got of the phase at hand."""

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name="receiving", daemon=True)
        self._receiver: Receiver = adapter("receive", name)(place)
        self._most = place.get("most", 5_000)
        self._changed = threading.Condition()
        self._closing = False
        self.failed: BaseException | None = None
        self.begin({"phase": -1, "skip": 0, "paced": False})
        self.start()

    def begin(self, order: dict[str, Any]) -> None:
        """From now on records of this phase count."""
        with self._changed:
            self._phase, self._skip, self._paced = order["phase"], order["skip"], order["paced"]
            self._took, self._numbers = array("q"), array("q")
            self._seen, self._count, self._last = set[int](), 0, 0
            self._cpu_s = time.process_time()

    def finish(self, order: dict[str, Any]) -> dict[str, Any]:
        """When so many records are there, or the time is over: what there is."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._count >= order["count"] or self.failed is not None, order["within_s"]
            )
            return {
                "received": len(self._seen) if self._paced else self._count,
                "again": self._count - len(self._seen) if self._paced else None,
                "ended": self._last,
                "cpu_s": time.process_time() - self._cpu_s,
                "took_ns": self._took.tolist(),
                "numbers": self._numbers.tolist() if order.get("numbers") else [],
            }

    def run(self) -> None:
        """Receive, note, settle."""
        try:
            while not self._closing:
                values = self._receiver.receive(0.2, self._most)
                if values:
                    self._note(values)
                    self._receiver.settle()
            self._receiver.close()
        except BaseException as problem:
            with self._changed:
                self.failed = problem
                self._changed.notify_all()
            raise

    def _note(self, values: Sequence[bytes]) -> None:
        now = time.monotonic_ns()
        with self._changed:
            phase, count = b"%02d" % max(self._phase, 0), self._count
            for value in values:
                if value[:2] != phase:
                    continue
                self._count += 1
                if self._paced:
                    number = int(value[22:HEADER])
                    if number not in self._seen and number >= self._skip:
                        self._took.append(now - int(value[2:22]))
                        self._numbers.append(number)
                    self._seen.add(number)
            if self._count != count:
                self._last = now
                self._changed.notify_all()

    def close(self) -> None:
        """End the thread, which closes the connection."""
        self._closing = True
        self.join(10)


def _work(name: str, place: Place, order: dict[str, Any]) -> dict[str, Any]:
    """Threads that take ten, settle ten, until nothing comes for two seconds."""
    counts: list[Counter[int]] = []

    def run() -> None:
        worker: Receiver = adapter("work", name)(place)
        counted: Counter[int] = Counter()
        idle_since = time.monotonic() + 10
        while time.monotonic() < idle_since + 2:
            values = worker.receive(0.5, order["batch"])
            if values:
                worker.settle()
                counted[time.monotonic_ns() // _BUCKET_NS] += len(values)
                idle_since = time.monotonic()
        counts.append(counted)
        worker.close()

    threads = [threading.Thread(target=run) for _ in range(order["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counts) != len(threads):
        raise RuntimeError(f"{len(threads) - len(counts)} of {len(threads)} workers failed")
    return {
        "bucket_ns": _BUCKET_NS,
        "settled": {str(at): number for at, number in sum(counts, Counter[int]()).items()},
    }


def drained(drainer: Drainer, count: int, within_s: float) -> dict[str, Any]:
    """Read `count` records; from the moment at which the first ones are there."""
    until = time.monotonic() + within_s
    first = got = Drained(0, 0, 0)
    began = cpu_s = 0.0
    while got.records < count and time.monotonic() < until:
        more = drainer.read(1.0, min(_MOST_DRAINED, count - got.records))
        if more.records and not got.records:
            began, cpu_s, first = time.perf_counter(), time.process_time(), more
        got = Drained(*map(operator.add, got, more))
    took_s = time.perf_counter() - began
    return {
        "received": got.records,
        "bytes": got.bytes,
        "offsets": got.offsets,
        "counted": got.records - first.records,
        "seconds": took_s,
        "cpu_s": time.process_time() - cpu_s,
    }


def _drain(name: str, place: Place, order: dict[str, Any]) -> dict[str, Any]:
    drainer: Drainer = adapter("drain", name)(place | {"group": order["group"]})
    found = drained(drainer, order["count"], order["within_s"])
    drainer.close()
    return found


def main() -> None:
    """Take orders until standard input ends."""
    role, name, place = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    if role == "drain":
        for line in sys.stdin:
            _answer(_drain(name, place, json.loads(line)))
    elif role == "work":
        for line in sys.stdin:
            _answer(_work(name, place, json.loads(line)))
    elif role == "send":
        sending = Sending(name, place)
        _answer({"ready": True})
        for line in sys.stdin:
            _answer(sending.phase(json.loads(line)))
        sending.close()
    else:
        receiving = Receiving(name, place)
        _answer({"ready": True})
        for line in sys.stdin:
            order = json.loads(line)
            if "count" in order:
                _answer(receiving.finish(order))
            else:
                receiving.begin(order)
                _answer({"ready": True})
        receiving.close()


if __name__ == "__main__":
    main()
