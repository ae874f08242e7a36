"""Which requests wait to be ordered, and what became of their rows. Pure.

A group is committed under one stamp, and the order job takes whole commits, so the first commit
of `log` that moves the watermark of a shard to a stamp or beyond has the fate of every row of
that group: an offset in this commit, or a line in `rejects`, which was committed before it. Lines
of `rejects` count only then: a leader that dies between the two commits is followed by one that
may judge anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakequeue.records import ShardName, Stamp
from queue_rules.produce.outcomes import Outcome
from serving.front.parking import Wake


@dataclass(slots=True)
class Ticket:
    """One request that waits: rows `first_row` … `first_row + count - 1` of its group."""

    count: int
    first_row: int = 0
    outcomes: list[Outcome] | None = None
    """One per record, when `settled` is set; None then means: given up, the node is stopping."""
    settled: Wake = field(default_factory=Wake)


@dataclass(slots=True)
class _Group:
    tickets: list[Ticket]
    refused: dict[int, Outcome] = field(default_factory=dict)


class PendingOffsets:
    """Groups that somebody waits for, by (shard, stamp). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[tuple[str, int], _Group] = {}
        self.changed = threading.Condition(self._lock)

    def __len__(self) -> int:
        return len(self._groups)

    def expect(self, shard: ShardName, stamp: Stamp, tickets: list[Ticket]) -> None:
        """Wait for a group; to be called before the group becomes visible to the order job."""
        with self._lock:
            self._groups[shard, stamp] = _Group(tickets)
            self.changed.notify_all()

    def forget(self, shard: ShardName, stamp: Stamp) -> None:
        """The group was not committed after all."""
        with self._lock:
            self._groups.pop((shard, stamp), None)

    def abandon(self, ticket: Ticket) -> None:
        """Its request has stopped waiting."""
        with self._lock:
            for key, group in list(self._groups.items()):
                if ticket in group.tickets:
                    group.tickets.remove(ticket)
                    if not group.tickets:
                        del self._groups[key]
                    return

    def give_up(self) -> None:
        """Let every waiting request answer now: the node is stopping."""
        with self._lock:
            for group in self._groups.values():
                for ticket in group.tickets:
                    ticket.settled.set()
            self._groups.clear()

    def awaited(self) -> dict[str, set[int]]:
        """Shard → stamps that are waited for."""
        with self._lock:
            found: dict[str, set[int]] = {}
            for shard, stamp in self._groups:
                found.setdefault(shard, set()).add(stamp)
            return found

    def refused(self, rows: Iterable[tuple[str, int, int, Outcome]]) -> None:
        """Lines of `rejects`: (shard, stamp, row, outcome). The newest line of a row counts."""
        with self._lock:
            for shard, stamp, row, outcome in rows:
                group = self._groups.get((shard, stamp))
                if group is not None:
                    group.refused[row] = outcome

    def passed(
        self, watermarks: Mapping[str, int], rows: Mapping[tuple[str, int], Mapping[int, Outcome]]
    ) -> None:
        """One commit of `log`: shard → stamp it moves the watermark to, and its rows by group."""
        with self._lock:
            for key in [k for k in self._groups if k[1] <= watermarks.get(k[0], -1)]:
                group = self._groups.pop(key)
                known = group.refused | dict(rows.get(key, {}))
                for ticket in group.tickets:
                    span = range(ticket.first_row, ticket.first_row + ticket.count)
                    if all(row in known for row in span):
                        ticket.outcomes = [known[row] for row in span]
                    # else: not to be explained from the tables; the waiter says "stored".
                    ticket.settled.set()
