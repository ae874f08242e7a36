"""Redis Streams, by redis-py with hiredis' protocol in Python."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import redis

from bench.peers.clients.interface import Acked, BatchSender, Place

GROUP = "bench"


def _connect(at: Place) -> Any:
    return redis.Redis(host="127.0.0.1", port=at["port"])


class RedisSender(BatchSender):
    """XADD in pipelines; partition n is stream n."""

    def __init__(self, at: Place, acked: Acked) -> None:
        self._redis, self._streams = _connect(at), at["streams"]
        super().__init__(self._add, acked, most=500)

    def _add(self, batch: list[tuple[int, bytes]]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for partition, value in batch:
            pipeline.xadd(self._streams[partition % len(self._streams)], {"v": value})
        pipeline.execute()


class RedisReceiver:
    """A consumer of a group, of all streams."""

    def __init__(self, at: Place) -> None:
        self._redis, self._streams = _connect(at), at["streams"]
        for stream in self._streams:
            try:
                self._redis.xgroup_create(stream, GROUP, id="0", mkstream=True)
            except redis.ResponseError as problem:
                if "BUSYGROUP" not in str(problem):
                    raise
        self._name = f"{os.getpid()}-{id(self)}"
        self._held: dict[bytes, list[bytes]] = defaultdict(list)

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """XREADGROUP, which waits for the first."""
        found = self._redis.xreadgroup(
            GROUP,
            self._name,
            dict.fromkeys(self._streams, ">"),
            count=most,
            block=max(1, int(seconds * 1_000)),
        )
        values = []
        for stream, entries in found or ():
            self._held[stream] += [entry for entry, _ in entries]
            values += [fields[b"v"] for _, fields in entries]
        return values

    def settle(self) -> None:
        """XACK."""
        if self._held:
            pipeline = self._redis.pipeline(transaction=False)
            for stream, entries in self._held.items():
                pipeline.xack(stream, GROUP, *entries)
            pipeline.execute()
            self._held.clear()

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()
