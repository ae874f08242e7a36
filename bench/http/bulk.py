"""JSON in bulk, in and out: records a second, and the CPU of each kind of process.

    python -m bench.http.bulk [--seconds 8] [--rounds 2] [--before DIR] [--json FILE]

A whole queue by `lakequeue up`. In: requests of 500 records of 1 kB (random hex digits) over eight
connections, until all is in `log`. Out: one member of a stream group reads all of it from the
earliest, in answers of up to 5,000 records, and commits through the last of each. The load is plain
HTTP with bodies made before, so that what is counted is the services' own. CPU is in seconds per
million records, and in *loops*: divided by the time that a loop of 5,000,000 additions takes.
`--before`: an older checkout with an environment of its own, measured in turn with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import psutil

from bench import machine
from bench.peers.processes import Server
from bench.peers.usage import cpu_s, tree
from coordination.embedded import free_port
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG

HERE = Path(__file__).parents[2]
CONNECTIONS, A_REQUEST, BYTES = 8, 500, 1_000
PARTITIONS, AN_ANSWER = 8, 5_000
WARM_S = 3.0
TOPIC = "bulk"
BODIES = 32
ROLES = {"ingest": "-m ingest", "consumer service": "-m consumer_service", "driver": "jobs.driver"}


class Asks:
    """One connection."""

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)

    def __call__(self, method: str, path: str, body: bytes = b"") -> Any:
        """The JSON of a 200; None: the node is full, and is asked again."""
        kind = {"content-type": "application/json"} if body else {}
        self._connection.request(method, path, body or None, kind)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{answer.status} {text[:300]!r}")
        return orjson.loads(text) if text else {}


class Queue:
    """One that `lakequeue up` of a checkout runs."""

    def __init__(self, place: Path, folder: Path) -> None:
        self.root = str(folder / "queue")
        self.ingest, self.consumer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        command = [str(place / ".venv/bin/lakequeue"), "up", "--root", self.root]
        for name, url in (("--ingest-port", self.ingest), ("--consumer-port", self.consumer)):
            command += [name, str(urlsplit(url).port)]
        self._server = Server(command, folder / "up.log", cwd=place)
        self._server.wait_for(self._is_ready, 120)

    def _is_ready(self) -> bool:
        with suppress(OSError):
            for url in (self.ingest, self.consumer):
                if Asks(url)("GET", "/readyz") is None:
                    return False
            return "http" in self._server.output()
        return False

    def cpu(self) -> dict[str, float]:
        """Seconds of each kind of process so far."""
        found: dict[str, float] = defaultdict(float)
        for process in tree([self._server.process.pid]):
            with suppress(psutil.NoSuchProcess):
                found[_role(process)] += cpu_s([process.pid])
        return found

    def stop(self) -> None:
        """End it."""
        self._server.stop()


def _role(process: psutil.Process) -> str:
    words = process.cmdline()
    if words and words[0].endswith("java"):
        return "ZooKeeper" if any("zookeeper" in word for word in words) else "JVM"
    said = " ".join(words)
    named = [role for role, sign in ROLES.items() if sign in said]
    return named[0] if named else "others"


@contextmanager
def _up(place: Path) -> Iterator[Queue]:
    with tempfile.TemporaryDirectory(prefix="bench-bulk-") as folder:
        queue = Queue(place, Path(folder))
        try:
            yield queue
        finally:
            queue.stop()


def json_request() -> bytes:
    """A request of `A_REQUEST` records, in JSON."""
    records = [
        {"partition": number % PARTITIONS, "value": os.urandom(BYTES // 2).hex()}
        for number in range(A_REQUEST)
    ]
    return orjson.dumps({"records": records})


def send(url: str, seconds: float) -> int:
    """Send for so long; how many were acknowledged."""
    bodies = [json_request() for _ in range(BODIES)]
    until = time.monotonic() + seconds
    sent = [0] * CONNECTIONS

    def work(number: int) -> None:
        asks, at = Asks(url), number
        while time.monotonic() < until:
            if asks("POST", f"/v1/topics/{TOPIC}/records", bodies[at % BODIES]) is not None:
                sent[number] += A_REQUEST
            at += 1

    _all(work, CONNECTIONS)
    return sum(sent)


def _all(work: Callable[[int], None], many: int) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ordered(root: str) -> int:
    """How many records are in `log`, of all topics."""
    txns = TableLog(QueueRoot.open(root).store, LOG.name).open().txns
    return sum(version for name, version in txns.items() if name.startswith("offset/"))


def read(url: str, records: int, group: str = TOPIC) -> None:
    """Let a new group read so many from the earliest, and commit them."""
    asks = Asks(url)
    joined = asks(
        "POST",
        f"/v1/groups/{group}/members",
        orjson.dumps({"topics": [TOPIC], "from": "earliest", "session_timeout_ms": 60_000}),
    )
    path, answered, got = f"/v1/groups/{group}/members/{joined['member_id']}", 0, 0
    while got < records:
        said = f"max={AN_ANSWER}&wait_ms=5000&after={answered}"
        answer = asks("GET", f"{path}/records?{said}")
        if answer is None:
            continue
        answered = answer["poll"]
        got += len(answer["records"])
        last = {record["partition"]: record["receipt"] for record in answer["records"]}
        if last:
            body = {"acks": list(last.values()), "commit_through": True}
            asks("POST", f"{path}/acks", orjson.dumps(body))


def _per_million(now: dict[str, float], before: dict[str, float], records: int) -> dict[str, float]:
    used = {role: round((now[role] - before.get(role, 0.0)) / records * 1e6, 2) for role in now}
    return {"all": round(sum(used.values()), 2)} | {role: s for role, s in used.items() if s}


def measured(place: Path, seconds: float) -> dict[str, Any]:
    """One queue of a checkout."""
    with _up(place) as queue:
        asks = Asks(queue.ingest)
        asks("PUT", f"/v1/topics/{TOPIC}", orjson.dumps({"partitions": PARTITIONS}))
        warm = send(queue.ingest, WARM_S)
        while ordered(queue.root) < warm:
            time.sleep(0.05)
        before, began = queue.cpu(), time.monotonic()
        sent = send(queue.ingest, seconds)
        acked_s = time.monotonic() - began
        while ordered(queue.root) < warm + sent:
            time.sleep(0.05)
        ordered_s = time.monotonic() - began
        between, began = queue.cpu(), time.monotonic()
        read(queue.consumer, warm + sent)
        read_s = time.monotonic() - began
        after = queue.cpu()
    return {
        "records": sent,
        "acked_per_s": round(sent / acked_s),
        "ordered_per_s": round(sent / ordered_s),
        "read_per_s": round((warm + sent) / read_s),
        "cpu_in_s_per_million": _per_million(between, before, sent),
        "cpu_out_s_per_million": _per_million(after, between, warm + sent),
    }


def main() -> None:
    """Measure this checkout and the one before in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    places = {"now": HERE} | ({"before": args.before.resolve()} if args.before else {})
    where = machine.describe()
    rows = []
    for _ in range(args.rounds):
        for name, place in places.items():
            speed = machine.calibrated()
            row = measured(place, args.seconds)
            for way in ("in", "out"):
                used = row[f"cpu_{way}_s_per_million"]["all"]
                row[f"cpu_{way}_loops"] = round(used / speed["loop_ms"] * 1_000, 1)
            rows.append({"which": name} | row | {"machine": speed})
            print(json.dumps(rows[-1]), flush=True)
    found = {"machine": where, "rows": rows}
    if args.json is not None:
        args.json.write_text(f"{json.dumps(found, indent=1)}\n")


if __name__ == "__main__":
    main()
