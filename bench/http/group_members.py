"""Members of many groups, for `bench.http.shapes`.

    python -m bench.http.group_members URL TOPICS PARTITIONS GROUPS REFUSED

One member for each group. It polls again as soon as it has an answer, and commits once a second
what it got. REFUSED of them show the receipts of a member before them instead: each of their
commits is refused, and what they got stays outstanding. It prints a line when all members have had
a record of each partition. A line on its standard input lets the counts begin anew. When standard
input ends, it prints how long after their commit records arrived.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.http.probes import Client
from lakequeue.clock import wall_micros
from lakequeue.wire import NodeList

JOINING = 8
COMMIT_EVERY_S = 1.0
_READ_BYTES = 1 << 20


@dataclass
class Member:
    """One connection, on which a poll or an ack is under way."""

    path: str
    link: socket.socket
    answered: int = 0
    got: bytearray = field(default_factory=bytearray)
    receipts: dict[tuple[str, int], str] = field(default_factory=dict)
    """Of the last record of each partition that is not committed."""
    stale: Sequence[str] = ()
    """Receipts of a member before it, which it shows in place of its own."""
    commit_at: float = 0.0
    acking: bool = False

    def ask(self) -> None:
        """The next call."""
        self.acking = bool(self.receipts) and time.monotonic() >= self.commit_at
        if self.acking:
            self.commit_at = time.monotonic() + COMMIT_EVERY_S
            acks = self.stale or list(self.receipts.values())
            body = {"acks": acks, "commit_through": True}
            self.receipts = {}
            self._send("POST", f"{self.path}/acks", orjson.dumps(body))
        else:
            self._send("GET", f"{self.path}/records?wait_ms=5000&after={self.answered}")

    def _send(self, method: str, path: str, body: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nPrefer: return=minimal\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.link.sendall(head.encode() + b"\r\n" + body)

    def answer(self) -> bytes | None:
        """The body, once all of it is there."""
        self.got += self.link.recv(_READ_BYTES)
        head, found, body = self.got.partition(b"\r\n\r\n")
        if not found:
            return None
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return None
        expected = b"HTTP/1.1 409" if self.acking and self.stale else b"HTTP/1.1 200"
        if head.startswith(b"HTTP/1.1 503"):
            self.acking = True  # a full machine: it is asked again, and what came is counted
        elif not head.startswith(expected):
            raise RuntimeError(bytes(self.got[:500]).decode())
        self.got = bytearray()
        return bytes(body)


class Members:
    """All of them, in one thread."""

    def __init__(self, url: str, topics: int, partitions: int, groups: int, refused: int) -> None:
        nodes = _nodes(url)
        self._poll = select.epoll()
        self._members: dict[int, Member] = {}
        self.took_ms: list[float] = []
        self.bytes = 0
        self.polls = 0
        self.missing: dict[str, int] = {}
        """Path → of how many partitions nothing has come yet."""
        self._seen: set[tuple[str, str, int]] = set()
        with ThreadPoolExecutor(JOINING) as pool:
            many = topics * partitions
            stale = list(pool.map(partial(_left, nodes, topics, many), range(refused)))
            paths = list(pool.map(partial(_joined, nodes, topics), range(groups)))
        for number, path in enumerate(paths):
            self.missing[path] = topics * partitions
            parts = urlsplit(nodes[number % len(nodes)])
            link = socket.create_connection((parts.hostname or "", parts.port or 80))
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            member = Member(path, link, stale=stale[number] if number < refused else ())
            self._members[link.fileno()] = member
            self._poll.register(link, select.EPOLLIN)
            member.ask()

    def run(self) -> None:
        """Until standard input ends; a line there lets the counts begin anew."""
        self._poll.register(sys.stdin, select.EPOLLIN)
        while True:
            for number, _ in self._poll.poll():
                if number == sys.stdin.fileno():
                    if not sys.stdin.readline():
                        return
                    self.took_ms, self.bytes, self.polls = [], 0, 0
                    continue
                member = self._members[number]
                body = member.answer()
                if body is not None:
                    self._heard(member, body)
                    member.ask()

    def _heard(self, member: Member, body: bytes) -> None:
        if member.acking:
            return
        answer = orjson.loads(body)
        member.answered = answer["poll"]
        now = wall_micros()
        self.polls += 1
        self.bytes += len(body)
        for record in answer["records"]:
            self.took_ms.append((now - record["timestamp"]) / 1_000)
            member.receipts[record["topic"], record["partition"]] = record["receipt"]
        if self.missing:
            self._tick_off(member.path, answer["records"])

    def _tick_off(self, path: str, records: list[dict[str, Any]]) -> None:
        new = {(path, r["topic"], r["partition"]) for r in records} - self._seen
        self._seen |= new
        if path in self.missing:
            self.missing[path] -= len(new)
            if self.missing[path] <= 0:
                del self.missing[path]
        if not self.missing:
            self._seen.clear()
            print(json.dumps({"reading": len(self._members)}), flush=True)


def _nodes(url: str) -> list[str]:
    """Those of the consumer service, as clients find them."""
    client = Client(url)
    found = NodeList.model_validate(client.ask("GET", "/v1/nodes"))
    client.close()
    return [node.url for node in found.consumer] or [url]


def _joined(nodes: list[str], topics: int, number: int) -> str:
    """The path of a new member of a group of its own, at a node of its turn."""
    client = Client(nodes[number % len(nodes)])
    base = f"/v1/groups/fan-{number:04}/members"
    names = [f"bench-{topic:04}" for topic in range(topics)]
    joined = client.ask(
        "POST", base, {"topics": names, "from": "latest", "session_timeout_ms": 60_000}
    )
    client.close()
    return f"{base}/{joined['member_id']}"


def _left(nodes: list[str], topics: int, many: int, number: int) -> list[str]:
    """A receipt for each of so many partitions, of a member that has left."""
    client = Client(nodes[number % len(nodes)])
    path = _joined(nodes, topics, number)
    receipts: dict[tuple[str, int], str] = {}
    answered: object = 0
    while len(receipts) < many:
        answer = client.ask("GET", f"{path}/records?wait_ms=5000&after={answered}")
        answered, records = answer["poll"], answer["records"]
        assert isinstance(records, list)
        receipts |= {(one["topic"], one["partition"]): one["receipt"] for one in records}
    client.ask("DELETE", path)
    client.close()
    return list(receipts.values())


def main(url: str, topics: int, partitions: int, groups: int, refused: int) -> None:
    """Join, poll until standard input ends, and say how it went."""
    members = Members(url, topics, partitions, groups, refused)
    members.run()
    took = sorted(members.took_ms)
    found = {
        "deliveries": len(took),
        "polls": members.polls,
        "p50_ms": round(took[len(took) // 2], 1) if took else None,
        "p99_ms": round(took[len(took) * 99 // 100], 1) if took else None,
        "cpu_s": round(time.process_time(), 2),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:6]))
