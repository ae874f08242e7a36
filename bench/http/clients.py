"""Clients that hold a node up: `python -m bench.http.clients KIND URL COUNT`, for
`bench.http.front`.

Prints a line when all of them are there, and holds them until its standard input ends.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx2

JOINING, POLLS = 16, 100
Sends = Callable[[str, int], Iterator[bytes]]


def slow_heads(_url: str, count: int) -> Iterator[bytes]:
    """One byte of a request."""
    yield from [b"G"] * count


def slow_bodies(_url: str, count: int) -> Iterator[bytes]:
    """A head, and one byte of the body."""
    head = (
        b"POST /v1/topics/bench/records HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\n"
        b"Content-Length: 1000\r\n\r\n{"
    )
    yield from [head] * count


def silent(_url: str, count: int) -> Iterator[bytes]:
    """Nothing."""
    yield from [b""] * count


def waits(_url: str, count: int) -> Iterator[bytes]:
    """Sends that wait for their offsets, with no order job there."""
    body = b'{"records":[{"value":"x"}]}'
    head = (
        b"POST /v1/topics/bench/records?wait=ordered&timeout_ms=60000 HTTP/1.1\r\n"
        b"Host: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    yield from [head + body] * count


def polls(url: str, count: int) -> Iterator[bytes]:
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
        yield f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def readers(_url: str, count: int) -> Iterator[bytes]:
    """Ask for much, and never read it."""
    path = "/v1/topics/bench/records?partition=0&offset=0&max=2000"
    yield from [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 4] * count


KINDS: dict[str, Sends] = {
    one.__name__: one for one in (slow_heads, slow_bodies, silent, waits, polls, readers)
}


def hold(kind: str, url: str, count: int) -> None:
    """Open the connections, say so, and keep them until standard input ends."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    reads = kind in {"waits", "polls"}
    watched = selectors.DefaultSelector()
    held: list[socket.socket] = []
    for data in KINDS[kind](url, count):
        one = socket.socket()
        if kind == "readers":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        one.connect(address)
        if data:
            one.sendall(data)
        one.setblocking(False)
        if reads:
            watched.register(one, selectors.EVENT_READ, data)
        held.append(one)
    sys.stdout.write(json.dumps({"held": len(held)}) + "\n")
    sys.stdout.flush()
    watched.register(sys.stdin, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            if key.fileobj is sys.stdin:
                return
            again(watched, key)


def again(watched: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Ask again when the answer has come, as a client does."""
    one = key.fileobj
    assert isinstance(one, socket.socket)
    try:
        if one.recv(1 << 16).startswith(b"HTTP/1.1 200"):
            one.sendall(key.data)
            return
    except BlockingIOError:
        return
    except OSError:
        pass
    watched.unregister(one)


if __name__ == "__main__":
    hold(sys.argv[1], sys.argv[2], int(sys.argv[3]))
