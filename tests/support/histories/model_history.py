"""A right history of a whole queue, made up at random: what mutation tests change one event of.

Two partitions; sends that are acknowledged, refused or unknown; a stream group whose leases change
hands, with its effects; a queue group that nacks and loses workers.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from history_checker import GroupRequirements, Requirements
from history_checker.history import Event, Outcome

TERMS = Requirements(
    {
        "g": GroupRequirements(delivery="exactly_once", topics=("t",), drained=True),
        "w": GroupRequirements("queue", topics=("t",), drained=True, max_attempts=5),
    }
)
SECOND_US = 1_000_000


class ModelHistory:
    """`events`: in the order of time, one a second."""

    def __init__(self, rng: random.Random, records: int = 8) -> None:
        self._rng = rng
        self._events: list[Event] = []
        self._log: list[list[str]] = [[], []]
        for n in range(records):
            self._send(f"v{n}")
        for part in range(2):
            self._stream(part)
            for offset in range(len(self._log[part])):
                self._work(part, offset)
        for part, values in enumerate(self._log):
            for offset, value in enumerate(values):
                self._add("read", "final", part, offset=offset, value=value)

    @property
    def events(self) -> list[Event]:
        return list(self._events)

    def _add(self, f: str, proc: str, part: int, kind: Outcome = "ok", **fields: Any) -> None:
        second = len(self._events) + 1
        event = Event(f, kind, t_ns=second * 10**9, proc=proc, topic="t", part=part)
        at = {"wall": second * SECOND_US} | fields
        self._events.append(replace(event, **at))

    def _send(self, value: str) -> None:
        part = self._rng.randrange(2)
        kinds: list[Outcome] = ["ok", "ok", "ok", "info", "fail"]
        kind = self._rng.choice(kinds)
        stored = kind == "ok" or (kind == "info" and self._rng.random() < 0.5)
        self._add("send", "p", part, "invoke", value=value)
        self._add("send", "p", part, kind, value=value)
        if stored:
            self._log[part].append(value)

    def _stream(self, part: int) -> None:
        """Leases from the committed position on; the last one reads to the end."""
        values = self._log[part]
        committed, sunk, epoch, version = 0, 0, 0, 0
        while sunk < len(values):
            epoch += 1
            proc = f"c{self._rng.randrange(3)}-{part}-{epoch}"
            end = self._rng.randint(committed + 1, len(values)) if committed < len(values) else 0
            for offset in range(committed, end):
                poll = epoch * 100 + offset // 2
                self._add(
                    *("receive", proc, part),
                    offset=offset,
                    value=values[offset],
                    group="g",
                    lease_epoch=epoch,
                    poll=poll,
                )
            if end > sunk:
                version += 1
                self._add(
                    *("sink", proc, part), offset=sunk, until=end, delta_version=version, group="g"
                )
                for offset in range(sunk, end):
                    self._add("effect", proc, part, offset=offset, group="g")
                sunk = end
            committed = self._commit(part, proc, epoch, end, committed)

    def _commit(self, part: int, proc: str, epoch: int, end: int, committed: int) -> int:
        kinds: list[Outcome | None] = ["ok", "ok", "info", None]
        kind = self._rng.choice(kinds)
        if kind is None:
            return committed
        mine: dict[str, Any] = {"offset": end, "group": "g", "lease_epoch": epoch}
        self._add("commit_offset", proc, part, "invoke", **mine)
        self._add("commit_offset", proc, part, kind, **mine)
        return end if kind == "ok" else committed

    def _work(self, part: int, offset: int) -> None:
        """Attempts until it is acked."""
        attempt = 0
        while True:
            attempt += 1
            mine: dict[str, Any] = {"offset": offset, "group": "w", "deliver_count": attempt}
            proc = f"w{attempt}-{part}-{offset}"
            ends = (len(self._events) + 100) * SECOND_US
            value = self._log[part][offset]
            self._add("receive", proc, part, value=value, expires_at=ends, **mine)
            if attempt == 5 or self._rng.random() < 0.6:
                self._add("ack", proc, part, "invoke", **mine)
                self._add("ack", proc, part, **mine)
                return
            if self._rng.random() < 0.5:
                self._add("nack", proc, part, "invoke", **mine)
                self._add("nack", proc, part, not_before=len(self._events) * SECOND_US, **mine)
            else:
                self._add("leave", proc, part, group="w")
