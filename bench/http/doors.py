"""What authentication costs: CPU time of an ingest node for each send, open and locked.

    python -m bench.http.doors --json bench/doors.json

One connection sends one record at a time. The node is open, then locked with one key, then with
10,000; in turn, several rounds, so that what else runs on the machine is alike for all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from bench import machine
from queue_access.keys import new_key
from queue_access.registry import LOCKED, Entry, Registry, entry_of_grant, entry_of_key
from queue_access.rights import checked_grant
from queue_tables.entries import AccessTable
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore

_BODY = b'{"records":[{"value":"x"}]}'
MANY = 10_000


def lock(root: QueueRoot, keys: int) -> str:
    """Lock a root that has so many keys; one of them, which may send."""
    text, made = new_key("sender")
    others = [entry_of_key(new_key(f"p{number}")[1]) for number in range(keys - 1)]
    grant = entry_of_grant("sender", checked_grant("produce", "topic", "bench"))

    def wanted(_registry: Registry) -> list[Entry]:
        return [Entry(LOCKED, LOCKED), entry_of_key(made), grant, *others]

    AccessTable(root).change(wanted, "bench")
    return text


@contextlib.contextmanager
def served(root: Path) -> Iterator[tuple[psutil.Process, tuple[str, int]]]:
    """An ingest node: its process and address."""
    command = [sys.executable, "-m", "ingest", "--root", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        try:
            ready = json.loads(node.stdout.readline())
            url = urlsplit(ready["url"])
            yield psutil.Process(ready["pid"]), (url.hostname or "", url.port or 0)
        finally:
            node.terminate()
            node.wait(60)


class Sender:
    """One connection."""

    def __init__(self, address: tuple[str, int], key: str | None) -> None:
        self._socket = socket.create_connection(address)
        shown = b"" if key is None else f"Authorization: Bearer {key}\r\n".encode()
        self._request = (
            b"POST /v1/topics/bench/records HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\n" + shown
        ) + b"Content-Length: %d\r\n\r\n" % len(_BODY)
        self._request += _BODY

    def send(self, count: int) -> None:
        """Send so many records, one after the other."""
        for _ in range(count):
            self._socket.sendall(self._request)
            answer = b""
            while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                answer += self._socket.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200"), answer


def cpu_s(process: psutil.Process) -> float:
    """CPU time that the process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Measure, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sends", type=int, default=600, help="in one round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    machine.announce()
    found: dict[str, list[float]] = {"open": [], "locked, 1 key": [], f"locked, {MANY} keys": []}
    with contextlib.ExitStack() as stack:
        nodes = {}
        for name, keys in zip(found, (0, 1, MANY), strict=True):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            root = QueueRoot.open(str(folder / "root"))
            TopicStore(root).create("bench", partitions=1)
            key = lock(root, keys) if keys else None
            process, address = stack.enter_context(served(folder / "root"))
            sender = Sender(address, key)
            sender.send(100)
            nodes[name] = (process, sender)
        for _ in range(args.rounds):
            for name, (process, sender) in nodes.items():
                before = cpu_s(process)
                sender.send(args.sends)
                found[name].append((cpu_s(process) - before) / args.sends * 1e6)
    told = {
        name: {
            "cpu_us": round(statistics.median(all_)),
            "lowest": round(min(all_)),
            "highest": round(max(all_)),
        }
        for name, all_ in found.items()
    }
    print(json.dumps(told, indent=1))
    if args.json is not None:
        args.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
