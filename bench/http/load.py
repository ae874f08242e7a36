"""Sends of one record from 64 connections, each after the answer to the one before."""

from __future__ import annotations

import json
import selectors
import socket
import time
from typing import TypedDict
from urllib.parse import urlsplit

import psutil

CONNECTIONS = 64
WARM_S, RUN_S = 3.0, 8.0
_BODY = json.dumps({"records": [{"value": "x" * 1_000}]}).encode()


class Speed(TypedDict):
    """What came out."""

    per_s: int
    p50_ms: float
    p99_ms: float
    cpu_us: int
    """Of the node, for one request."""
    client_us: int
    """Of what sends, which runs on the same cores."""


def load(url: str, pid: int) -> Speed:
    """Send for a while; the node is `pid` and what it has started."""
    parts = urlsplit(url)
    address = (parts.hostname or "", parts.port or 80)
    _run(address, WARM_S)
    before, mine = _cpu(pid), time.process_time()
    took = sorted(_run(address, RUN_S))
    spent, sending = _cpu(pid) - before, time.process_time() - mine
    return {
        "per_s": int(len(took) / RUN_S),
        "p50_ms": round(took[len(took) // 2] * 1_000, 1),
        "p99_ms": round(took[int(len(took) * 0.99)] * 1_000, 1),
        "cpu_us": int(spent / len(took) * 1e6),
        "client_us": int(sending / len(took) * 1e6),
    }


def _cpu(pid: int) -> float:
    process = psutil.Process(pid)
    tree = [process, *process.children(recursive=True)]
    return float(sum(sum(one.cpu_times()[:2]) for one in tree))


def _run(address: tuple[str, int], seconds: float) -> list[float]:
    request = (
        b"POST /v1/topics/bench/records HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(_BODY)
    ) + _BODY
    took: list[float] = []
    with selectors.DefaultSelector() as selector:
        for _ in range(CONNECTIONS):
            one = socket.create_connection(address)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setblocking(False)
            selector.register(one, selectors.EVENT_READ, [b"", time.perf_counter()])
            one.send(request)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for key, _ in selector.select(0.2):
                state = key.data
                link = key.fileobj
                assert isinstance(link, socket.socket)
                state[0] += link.recv(65_536)
                if not _whole(state[0]):
                    continue
                if not state[0].startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(state[0][:300].decode())
                now = time.perf_counter()
                took.append(now - state[1])
                state[0], state[1] = b"", now
                link.send(request)
        for key in list(selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
    return took


def _whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return len(body) >= int(length)
