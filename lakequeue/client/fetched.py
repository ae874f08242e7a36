"""Records that a poll has brought, made into messages when they are handed out. Pure.

A record in columns costs a consumer one object and a copy of its value. The rest of it is made when
somebody asks for it.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, Final, Protocol

from lakequeue.client.message import Message
from lakequeue.errors import Broken
from lakequeue.records import Format
from lakequeue.wire import from_bytes, headers_to_json
from lakequeue.wire.arrow_reader import Column

Ack = Callable[[Message, bool], None] | None
Place = tuple[str, int]
"""(topic, partition)"""
_TEXT, _JSON = int(Format.TEXT), int(Format.JSON)
_COLLECTOR: Final = threading.RLock()
"""Who has it may keep Python's garbage collector from looking. A signal handler may fork."""
if hasattr(os, "register_at_fork"):
    # A child would go on without the collector, and without the thread that puts it back.
    os.register_at_fork(
        before=_COLLECTOR.acquire,
        after_in_parent=_COLLECTOR.release,
        after_in_child=_COLLECTOR.release,
    )
_KEPT: Final = ("headers", "timestamp", "message_id", "receipt")
"""What is read only if somebody asks for it."""


class Records(Protocol):
    """The records of an answer, or a part of them."""

    def __len__(self) -> int: ...

    def runs(self) -> Iterator[tuple[Place, int, int]]:
        """Those of one partition that follow one another, first and last + 1."""

    def offsets(self, begin: int, end: int) -> list[int]:
        """Of some of them."""

    def messages(self, begin: int, end: int, given: Given) -> list[Message]:
        """Some of them, to be handed out. Raises `Broken`."""


class Given:
    """What the records of a partition that came together have in common."""

    __slots__ = ("ack", "epoch", "membership", "place")

    def __init__(self, place: Place, epoch: int | None, membership: int, ack: Ack) -> None:
        self.place = place
        self.epoch = epoch
        self.membership = membership
        self.ack = ack


def parts_of(records: list[dict[str, Any]] | Batches) -> Sequence[Records]:
    """Those that came in columns, or in JSON."""
    return records.parts if isinstance(records, Batches) else [InJson(records)]


class InJson:
    """Records as JSON has them."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def runs(self) -> Iterator[tuple[Place, int, int]]:
        """As `Records.runs`."""
        at = 0
        for place, some in groupby(self._records, itemgetter("topic", "partition")):
            begin, at = at, at + sum(1 for _ in some)
            yield place, begin, at

    def offsets(self, begin: int, end: int) -> list[int]:
        """As `Records.offsets`."""
        return [record["offset"] for record in self._records[begin:end]]

    def messages(self, begin: int, end: int, given: Given) -> list[Message]:
        """As `Records.messages`."""
        epoch, term, ack = given.epoch, given.membership, given.ack
        return [Message(raw, epoch, term, ack) for raw in self._records[begin:end]]


class InColumns:
    """Records of one batch of columns. Raises `ValueError`."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self._values = Payloads(columns["value"], columns["value_format"])
        self._keys = Payloads(columns["key"].apart(), columns["key_format"])
        self._offsets: list[int] = columns["offset"].values()
        self._partitions: list[int] = columns["partition"].values()
        self._topics = _topics(columns["topic"], self._partitions)
        self._kept = Kept({name: columns[name].apart() for name in _KEPT}, self._keys)

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """As JSON has them, but bytes as they are."""
        for place, begin, end in self.runs():
            values = self._values.some(begin, end)
            for at, value in enumerate(values, begin):
                yield self._kept.raw(place, self._offsets[at], at, value)

    def runs(self) -> Iterator[tuple[Place, int, int]]:
        """As `Records.runs`."""
        at = 0
        for place, some in groupby(zip(self._topics, self._partitions, strict=True)):
            begin, at = at, at + sum(1 for _ in some)
            yield place, begin, at

    def offsets(self, begin: int, end: int) -> list[int]:
        """As `Records.offsets`."""
        return self._offsets[begin:end]

    def messages(self, begin: int, end: int, given: Given) -> list[Message]:
        """As `Records.messages`."""
        try:
            values = self._values.some(begin, end)
        except ValueError as e:
            raise Broken(f"records of a poll cannot be read: {e}") from e
        rest = (repeat(self._kept), repeat(given))
        return list(map(Fetched, values, self._offsets[begin:end], range(begin, end), *rest))


class Batches:
    """The records of an answer in columns."""

    def __init__(self, parts: list[InColumns]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """As JSON has them, but bytes as they are."""
        for part in self.parts:
            yield from part


class Payloads:
    """Keys, or values."""

    def __init__(self, cells: Column, formats: Column) -> None:
        self._cells = cells
        self._formats: list[int | None] | None = formats.values()
        if not any(self._formats):  # bytes alone
            self._formats = None

    def some(self, begin: int, end: int) -> list[Any]:
        """Some of them, as they were sent. Raises `ValueError`."""
        cells = self._cells.cells(begin, end)
        if self._formats is None:
            return cells
        return [
            _payload(cell, fmt) for cell, fmt in zip(cells, self._formats[begin:end], strict=True)
        ]


class Kept:
    """What all records of a batch share, for as long as one of them is there: no values."""

    __slots__ = ("_columns", "_keys", "_made")

    def __init__(self, columns: dict[str, Column], keys: Payloads) -> None:
        self._columns = columns
        self._keys = keys
        self._made: dict[str, list[Any]] = {}

    def raw(self, place: Place, offset: int, at: int, value: Any) -> dict[str, Any]:
        """A record as JSON has it, but bytes as they are. Raises `Broken`."""
        try:
            headers = self._of("headers", at)
            return {
                "topic": place[0],
                "partition": place[1],
                "offset": offset,
                "key": self._keys.some(at, at + 1)[0],
                "value": value,
                # Nothing in it refers to other objects then: the garbage collector leaves it out.
                "headers": headers_to_json(headers) if headers else None,
                "timestamp": self._of("timestamp", at),
                "message_id": self._of("message_id", at),
                "attempt": 1,
                "receipt": self.receipt(at),
            }
        except ValueError as e:
            raise Broken(f"a record of a poll cannot be read: {e}") from e

    def receipt(self, at: int) -> str:
        """Of a record: mostly that of the last one is wanted alone."""
        return _text_at(self._columns["receipt"], at)

    def _of(self, name: str, at: int) -> Any:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._columns[name].values()
        return made[at]


class Fetched(Message):
    """A record that came in columns."""

    __slots__ = ("_at", "_kept", "_plain", "offset", "place")
    offset: int
    place: Place

    def __init__(self, plain: Any, offset: int, at: int, kept: Kept, given: Given) -> None:
        self._plain = plain
        self.offset = offset
        self._at = at
        self._kept = kept
        self.place = given.place
        self.epoch = given.epoch
        self.membership = given.membership
        self._ack = given.ack
        self._settle = self._value_type = self.nack_reason = None

    def __getattr__(self, name: str) -> Any:
        if name != "_raw":  # the only slot that is empty at first
            raise AttributeError(name)
        self._raw = raw = self._kept.raw(self.place, self.offset, self._at, self._plain)
        return raw

    def _value(self) -> Any:
        return self._plain

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.place[0]

    @property
    def partition(self) -> int:
        """Partition of the topic."""
        return self.place[1]

    @property
    def receipt(self) -> str:
        """What the service knows this delivery by."""
        return self._kept.receipt(self._at)


class Run:
    """Records of one partition that follow one another, on their way to the application."""

    __slots__ = ("_at", "_end", "_made", "_records", "given")

    def __init__(self, records: Records, begin: int, end: int, given: Given) -> None:
        self.given = given
        self._records = records
        self._at = begin
        self._end = end
        self._made: deque[Message] = deque()
        """All that is left, if they are taken one by one."""

    def __len__(self) -> int:
        return self._end - self._at

    def cut(self, most: int) -> Run:
        """Take the first ones off."""
        begin, self._at = self._at, min(self._end, self._at + most)
        taken = Run(self._records, begin, self._at, self.given)
        if self._made:
            taken._made.extend(self._made.popleft() for _ in range(len(taken)))
        return taken

    def next(self) -> Message:
        """Take the first one off. Raises `Broken`."""
        if not self._made:
            self._made.extend(self._records.messages(self._at, self._end, self.given))
        self._at += 1
        return self._made.popleft()

    def offsets(self) -> list[int]:
        """Of all."""
        return self._records.offsets(self._at, self._end)

    def messages(self) -> list[Message]:
        """All of them. Raises `Broken`."""
        if self._made:
            return list(self._made)
        return self._records.messages(self._at, self._end, self.given)


def messages_of(runs: Iterable[Run]) -> list[Message]:
    """The records of them, in their order. Raises `Broken`.

    Python's garbage collector does not look meanwhile. It would for each 700 of these objects, and
    soon take them, and all others with them, for old: that is a third of what a record costs.
    """
    # One thread at a time: another would find it off, and could leave it so.
    mine = _COLLECTOR.acquire(blocking=False)
    collects = mine and gc.isenabled()
    try:
        if collects:
            gc.disable()
        return [message for run in runs for message in run.messages()]
    finally:
        if collects:
            gc.enable()
        if mine:
            _COLLECTOR.release()


def _topics(column: Column, partitions: list[int]) -> list[str]:
    """The topic of each record; mostly there is one."""
    first = _text_at(column, 0)
    return [first] * len(partitions) if column.is_all(first.encode()) else column.values()


def _text_at(column: Column, at: int) -> str:
    return (column.cells(at, at + 1)[0] or b"").decode()


def _payload(data: bytes | None, fmt: int | None) -> Any:
    """As `wire.from_bytes`, with less ado for text and bytes."""
    if fmt == _JSON:
        return from_bytes(data, fmt)
    if fmt != _TEXT or data is None:
        return data
    try:
        return data.decode()
    except ValueError:
        return data
