"""A controller of many groups: how soon a change is answered, and what it asks of ZooKeeper.

    python -m bench.groups [--groups 1000] [--changes 10] [--json FILE]

A ZooKeeper server and a controller of this process, with groups of one member on a topic of four
partitions. In a group here and there a second member joins, through a session of its own, three
seconds after the one before: then nothing is under way. Measured: from there until the new
assignment is written; and packets that the server has got, and time of this process, in the three
seconds of each change, and in as many without one.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import socket
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import structlog

from bench import machine
from coordination.embedded import EmbeddedZooKeeper
from coordination.groups import membership
from coordination.groups.controller import Controller, read_assignment
from coordination.groups.membership import RegisteredMember, group_path
from coordination.zookeeper.session import Session

TOPIC, PARTITIONS = "bench", 4
PAUSE_S = 3.0
PATIENCE_S = 300.0


def _topics(names: list[str]) -> Iterable[tuple[str, str, int]]:
    return [(name, f"{name}-id", number) for name in names for number in range(PARTITIONS)]


def _packets(hosts: str) -> int:
    """What the server has received in all."""
    host, _, port = hosts.partition(":")
    with socket.create_connection((host, int(port)), 5.0) as link:
        link.sendall(b"srvr")
        said = b""
        while more := link.recv(4_096):
            said += more
    (line,) = [line for line in said.decode().splitlines() if line.startswith("Received:")]
    return int(line.split()[1])


def _fill(session: Session, count: int) -> list[str]:
    """Groups with one member each; written directly, which takes seconds and not minutes."""
    names = [f"group-{number:05}" for number in range(count)]
    member = RegisteredMember("first", (TOPIC,), "elsewhere").to_json()
    for name in names:
        session.ensure(group_path(session, name, "config"), b'{"mode": "stream"}')
        for part in ("members", "leases", "lease-epochs"):
            session.ensure(group_path(session, name, part))
        path = group_path(session, name, "members", "first")
        session.call(session.kazoo.create_async, path, member, ephemeral=True)
    return names


def _wait(session: Session, group: str, members: int) -> None:
    """Until its assignment has so many."""
    event, until = threading.Event(), time.monotonic() + PATIENCE_S
    while len(read_assignment(session, group, event).members) != members:
        if time.monotonic() > until:
            raise RuntimeError(f"{group} has no assignment to {members} after {PATIENCE_S:g} s")
        event.wait(1.0)
        event.clear()


def measure(groups: int, changes: int) -> dict[str, Any]:
    """The figures."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedZooKeeper(Path(folder))
        server.start()
        try:
            return _measured(server.hosts, groups, changes)
        finally:
            server.stop()


def _measured(hosts: str, groups: int, changes: int) -> dict[str, Any]:
    consumers, controlling = (Session(hosts, "bench", name) for name in ("consumers", "control"))
    consumers.start()
    controlling.start()
    names = _fill(consumers, groups)
    began = time.monotonic()
    controller = Controller(controlling, _topics).start()
    _wait(consumers, names[-1], 1)
    first_s = time.monotonic() - began
    time.sleep(PAUSE_S)
    took_ms: list[float] = []
    spent: dict[str, int] = {}
    for about in ("changed", "idle"):
        packets, cpu_s = _packets(hosts), time.process_time()
        for name in random.Random(7).sample(names, changes):
            if about == "changed":
                began = time.monotonic()
                membership.join(consumers, name, RegisteredMember("second", (TOPIC,), "elsewhere"))
                _wait(consumers, name, 2)
                took_ms.append((time.monotonic() - began) * 1_000)
            time.sleep(PAUSE_S)
        spent[f"{about}_packets"] = round((_packets(hosts) - packets) / changes)
        spent[f"{about}_cpu_ms"] = round((time.process_time() - cpu_s) * 1_000 / changes)
    took_ms.sort()
    controller.stop()
    controlling.stop()
    consumers.stop()
    return {
        "groups": groups,
        "first_s": round(first_s, 2),
        "answered_p50_ms": round(took_ms[len(took_ms) // 2], 1),
        "answered_max_ms": round(took_ms[-1], 1),
        **spent,
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    machine.announce()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    found = measure(args.groups, args.changes)
    if args.json is not None:
        args.json.write_text(json.dumps(found))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
