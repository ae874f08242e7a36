"""Looks for records, a page of the service at a time, for as long as a page of ours may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

from console.asking.services import Services
from console.rules.masks import Masks
from console.rules.records import Shown, fits, shown
from lakequeue.errors import InvalidRequest, OffsetOutOfRange
from lakequeue.wire import loads_exactly
from queue_rules.predicates.expressions import Condition
from queue_rules.predicates.parsing import parse

Begin = Literal["newest", "oldest", "offset", "time"]
_PAGE = 200
_MOST_PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records somebody looks for."""

    topic: str
    partitions: int
    partition: int | None = None
    """None: all of them."""
    begin: Begin = "newest"
    at: str = ""
    """An offset, or a time."""
    key: str = ""
    text: str = ""
    where: str = ""
    limit: int = 50

    @property
    def searches(self) -> bool:
        """Most records may not fit."""
        return bool(self.key or self.text or self.where)


@dataclass(slots=True)
class Read:
    """What was found, and how far."""

    records: list[Shown] = field(default_factory=list)
    looked_at: int = 0
    next_offset: int | None = None
    """Of one partition: where to go on. Forward, or back before it if the newest come first."""
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition → (first offset, end offset)."""
    in_time: bool = True
    """False: it was cut off, and there may be more."""


def search(services: Services, masks: Masks, wanted: Wanted, within_s: float) -> Read:
    """Raises `InvalidRequest` for what cannot be looked for, and what the service raises."""
    condition = parse(wanted.where) if wanted.where else None
    looking = _Looking(services, masks, wanted, condition, time.monotonic() + within_s)
    return looking.go()


class _Looking:
    def __init__(
        self,
        services: Services,
        masks: Masks,
        wanted: Wanted,
        condition: Condition | None,
        until: float,
    ) -> None:
        self._services, self._masks, self._wanted = services, masks, wanted
        self._condition, self._until = condition, until
        self.read = Read()

    def go(self) -> Read:
        wanted, read = self._wanted, self.read
        partitions = range(min(wanted.partitions, _MOST_PARTITIONS))
        chosen = partitions if wanted.partition is None else [wanted.partition]
        if wanted.key and wanted.partition is None:
            chosen = [self._partition_of_key()]
        walk = self._back if wanted.begin == "newest" else self._forward
        # Each partition has its share, so that none hides the others.
        share = max(5, -(-wanted.limit // len(chosen)))
        for partition in chosen:
            found = list(walk(partition, share if len(chosen) > 1 else wanted.limit))
            read.records += found
            if time.monotonic() > self._until:
                read.in_time = False
                break
        if len(chosen) > 1:
            read.next_offset = None
            newest = wanted.begin == "newest"
            read.records.sort(key=lambda r: (r.timestamp, r.partition, r.offset), reverse=newest)
            read.records = read.records[: wanted.limit]
        return read

    def _back(self, partition: int, limit: int) -> Iterator[Shown]:
        """The newest first."""
        page = self._page(partition, {"max": 1})
        first, end = page["start_offset"], page["end_offset"]
        if self._wanted.at:
            end = min(end, whole(self._wanted.at))
        step = _PAGE if self._wanted.searches else limit
        yielded = 0
        while end > first and yielded < limit:
            begin = max(first, end - step)
            rows = self._range(partition, begin, end)
            for record in reversed(rows):
                yield record
                yielded += 1
                end = record.offset
                if yielded >= limit:
                    break
            else:
                end = begin
            self.read.next_offset = end if end > first else None
            if time.monotonic() > self._until:
                self.read.in_time = False
                return

    def _range(self, partition: int, begin: int, end: int) -> list[Shown]:
        found: list[Shown] = []
        while begin < end:
            page = self._page(partition, {"offset": begin, "max": end - begin})
            found += self._fitting(raw for raw in page["records"] if raw["offset"] < end)
            if page["next_offset"] <= begin:
                break
            begin = page["next_offset"]
        return found

    def _forward(self, partition: int, limit: int) -> Iterator[Shown]:
        wanted = self._wanted
        query: dict[str, Any] = {"max": _PAGE if wanted.searches else limit}
        if wanted.begin == "offset":
            query["offset"] = whole(wanted.at)
        elif wanted.begin == "time":
            query["time"] = wanted.at
        yielded = 0
        while yielded < limit:
            page = self._page(partition, query)
            for record in self._fitting(iter(page["records"])):
                yield record
                yielded += 1
                if yielded >= limit:
                    self.read.next_offset = record.offset + 1
                    break
            else:
                self.read.next_offset = page["next_offset"]
            if self.read.next_offset >= page["end_offset"]:
                self.read.next_offset = None
                return
            if time.monotonic() > self._until:
                self.read.in_time = False
                return
            query.pop("time", None)
            query["offset"] = self.read.next_offset

    def _fitting(self, raws: Iterator[Any]) -> Iterator[Shown]:
        for raw in raws:
            self.read.looked_at += 1
            record, plain = shown(raw, self._masks)
            if fits(record, plain, self._wanted.text, self._condition):
                yield record

    def _partition_of_key(self) -> int:
        return int(self._ask({"key": self._wanted.key, "max": 1})["partition"])

    def _page(self, partition: int, query: dict[str, Any]) -> Any:
        asked = {"partition": partition, **query}
        if self._wanted.key:
            asked["key"] = self._wanted.key
        try:
            page = self._ask(asked)
        except OffsetOutOfRange as gone:
            first = gone.extra.get("first_offset")
            if first is None or "offset" not in asked or asked["offset"] >= first:
                raise
            page = self._ask(asked | {"offset": first})
        self.read.ends[partition] = (page["start_offset"], page["end_offset"])
        return page

    def _ask(self, query: dict[str, Any]) -> Any:
        left = max(0.15, self._until - time.monotonic())
        path = f"/v1/topics/{self._wanted.topic}/records?{urlencode(query)}"
        return loads_exactly(self._services.request("consumer", "GET", path, within_s=left))


def whole(text: str) -> int:
    """An offset as people write it. Raises `InvalidRequest`."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidRequest(f"{text[:40]!r} is no offset", hint="write a whole number, as in 42")
    return int(text)
