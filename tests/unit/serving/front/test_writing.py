"""What has left, and what has not."""

from __future__ import annotations

import asyncio

from serving.front.hub import Hub
from serving.front.limits.budget import Budget
from serving.front.writing import Writing
from tests.unit.serving.front.test_hub import LIMITS, Late


class Reset(asyncio.Transport):
    """Of a client that resets the connection when the second piece is written."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As many as you like."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces += 1

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.pieces > 1


def test_what_is_written_to_a_connection_that_was_reset_has_not_left() -> None:
    async def run() -> list[bool]:
        hub = Hub(lambda *_: [], [], LIMITS, Budget(1), ("", 0), asyncio.get_running_loop())
        writing = Writing(hub, Late([], [0]), Reset())
        return [writing.send(b"head"), writing.send(b"head", b"x" * 100_000)]

    assert asyncio.run(run()) == [True, False]


def test_an_answer_of_ten_records_of_a_kilobyte_leaves_by_one_write() -> None:
    async def run() -> int:
        hub = Hub(lambda *_: [], [], LIMITS, Budget(1), ("", 0), asyncio.get_running_loop())
        transport = Reset()
        Writing(hub, Late([], [0]), transport).send(b"head", b"x" * 17_000)
        return transport.pieces

    assert asyncio.run(run()) == 1


class Slow(Reset):
    """Of a client that takes the first piece at once, and of each further one only half."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = bytearray()
        self.waiting = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.waiting
        at_once = len(data) // 2 if self.pieces else len(data)
        self.pieces += 1
        self.taken += data[:at_once]
        self.waiting = bytes(data[at_once:])

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def is_closing(self) -> bool:
        return False

    def takes(self) -> None:
        self.taken += self.waiting
        self.waiting = b""


def test_a_large_answer_is_given_to_the_transport_in_pieces_and_counts_until_it_has_left() -> None:
    body = bytes(range(256)) * 8_000

    async def run() -> bytes:
        hub = Hub(lambda *_: [], [], LIMITS, Budget(1), ("", 0), asyncio.get_running_loop())
        transport = Slow()
        writing = Writing(hub, Late([], [0]), transport)
        assert not writing.send(b"head", body)
        most, now = 0, hub.now()
        while transport.waiting:
            assert (writing.due() or 0.0) > now
            most = max(most, len(transport.waiting))
            transport.takes()
            writing.more()
        assert most <= 256 << 10
        assert writing.due() is None
        return bytes(transport.taken)

    assert asyncio.run(run()) == b"head" + body
