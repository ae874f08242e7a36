"""Clients that hold a node up: `python -m bench.http.clients KIND URL COUNT`, for
`bench.http.front`.

Slow ones send a byte a second. A client that is let go comes again at once, so that there are
always so many; but those that never read stay away: each would have two megabytes made for it
again, and that is work, not waiting. Prints a line when all are there, holds them until its
standard input ends, and says then how it went.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from urllib.parse import urlsplit

import httpx2

JOINING, POLLS = 16, 100
TICKS_PER_S = 50
_GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Kind:
    """What a client does."""

    first: bytes = b""
    """Sent at once."""
    drip: bytes = b""
    """Sent a byte a second, again and again."""
    reads: bool = True
    again: bool = True
    """It comes again when it was let go; if it was answered with 200, on the same connection."""


def _asks(method: str, path: str, body: bytes = b"", more: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
    if body:
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    return head + more + b"\r\n" + body


SENDS = "/v1/topics/bench/records"
BODY = b'{"records":[{"value":"' + b"x" * 1_000 + b'"}]}'
JOINS = "/v1/groups/many/members"
JOIN = b'{"topics":["empty"]' + b" " * 1_000 + b"}"
READS = "/v1/topics/bench/records?partition=0&offset=0&max=2000"
KINDS = {
    "slow_heads": Kind(b"G", b"ET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 900),
    "slow_bodies": Kind(_asks("POST", SENDS, BODY)[: 1 - len(BODY)], BODY[1:]),
    "slow_joins": Kind(_asks("POST", JOINS, JOIN)[: 1 - len(JOIN)], JOIN[1:]),
    "silent": Kind(),
    "waits": Kind(_asks("POST", f"{SENDS}?wait=ordered&timeout_ms=60000", BODY)),
    "readers": Kind(_asks("GET", READS) * 4, reads=False, again=False),
    "document_readers": Kind(_asks("GET", "/openapi.json") * 16, reads=False, again=False),
}


def polls(url: str, count: int) -> Iterator[Kind]:
    """Polls that find nothing, a hundred to a member: joins would take longer than the rest."""
    with httpx2.Client(base_url=url, timeout=120) as http:

        def join(_: int) -> str:
            body = {"topics": ["empty"]}
            answer = http.post("/v1/groups/many/members", json=body)
            answer.raise_for_status()
            return str(answer.json()["member_id"])

        with ThreadPoolExecutor(JOINING) as pool:
            members = list(pool.map(join, range(max(1, count // POLLS))))
    for number in range(count):
        path = f"/v1/groups/many/members/{members[number % len(members)]}/records?wait_ms=60000"
        yield Kind(_asks("GET", path))


class Client:
    """One connection, and the next when it was ended."""

    def __init__(self, kind: Kind, address: tuple[str, int]) -> None:
        self.kind = kind
        self._address = address
        self._sent = 0
        self.socket = self.opened()

    def opened(self) -> socket.socket:
        """A new connection."""
        self.socket = one = socket.socket()
        if not self.kind.reads:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        one.connect(self._address)
        one.setblocking(False)
        self._sent = 0
        if self.kind.first:
            one.sendall(self.kind.first)
        return one

    def drip(self) -> None:
        """One byte more."""
        try:
            self.socket.send(self.kind.drip[self._sent : self._sent + 1])
            self._sent += 1
        except OSError:
            return  # it was ended, and the poll says so

    def answered(self) -> bool:
        """Whether it was answered as it should, and has asked again."""
        try:
            if self.socket.recv(_READ_BYTES).startswith(b"HTTP/1.1 200"):
                self.socket.sendall(self.kind.first)
                return True
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False


class Crowd:
    """All of them."""

    def __init__(self, kinds: Iterator[Kind], address: tuple[str, int]) -> None:
        self._poll = select.epoll()
        self._clients: dict[int, Client] = {}
        self.again = 0
        """How often one was let go and came again."""
        for kind in kinds:
            self._watch(Client(kind, address))

    def __len__(self) -> int:
        return len(self._clients)

    def _watch(self, client: Client) -> None:
        self._clients[client.socket.fileno()] = client
        wanted = select.EPOLLIN if client.kind.reads else 0
        self._poll.register(client.socket, wanted | _GONE)

    def hold(self) -> None:
        """Until standard input ends."""
        self._poll.register(sys.stdin, select.EPOLLIN)
        dripping = [one for one in self._clients.values() if one.kind.drip]
        each = -(-len(dripping) // TICKS_PER_S)
        turns, due = cycle(dripping), time.monotonic()
        while True:
            wait_s = max(0.0, due - time.monotonic()) if dripping else -1
            for number, _ in self._poll.poll(wait_s):
                if number == sys.stdin.fileno():
                    return
                self._heard(number)
            if dripping and time.monotonic() >= due:
                due += 1 / TICKS_PER_S
                for one in islice(turns, each):
                    one.drip()

    def _heard(self, number: int) -> None:
        client = self._clients[number]
        if client.kind.reads and client.answered():
            return
        del self._clients[number]
        self._poll.unregister(number)
        client.socket.close()
        if client.kind.again:
            self.again += 1
            client.opened()
            self._watch(client)


def main(kind: str, url: str, count: int) -> None:
    """Open the connections, say so, and keep them until standard input ends."""
    parts = urlsplit(url)
    kinds = polls(url, count) if kind == "polls" else iter([KINDS[kind]] * count)
    crowd = Crowd(kinds, (parts.hostname or "", parts.port or 80))
    print(json.dumps({"held": len(crowd)}), flush=True)
    crowd.hold()
    print(json.dumps({"held": len(crowd), "came_again": crowd.again}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
