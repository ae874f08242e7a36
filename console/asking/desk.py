"""What one key may see: its sources, each kept for a while, and the rates of the last hour."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar, cast

from console.asking import processes
from console.asking.patience import Kept, Patience
from console.asking.processes import Processes
from console.asking.services import Addresses, Services
from console.rules.flow import counters, group_lags, levels
from console.rules.found import Found
from console.rules.rates import History, Lags

LOOK_S = 4.0
_LISTS_S = 10.0
_ADVICE_S = 20.0
_SLOW_S = 5.0
_MOST_OTHERS = 64
T = TypeVar("T")


class Desk:
    """Thread-safe. Nothing is asked for while nobody looks, but for the rates."""

    def __init__(self, at: Addresses, key: str | None, ca: str | None, patience: Patience) -> None:
        self.patience = patience
        self.services = services = Services(at, key, ca)
        self.history = History(LOOK_S)
        self.lags = Lags()
        self._others: OrderedDict[str, Kept[Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.processes: Kept[Processes] = Kept(
            patience, "the processes", lambda: self._look(), LOOK_S
        )
        self.topics: Kept[list[dict[str, Any]]] = Kept(
            patience,
            "the list of topics",
            lambda: list(services.get("ingest", "/v1/topics", _SLOW_S)["topics"]),
            _LISTS_S,
        )
        self.groups: Kept[list[dict[str, Any]]] = Kept(
            patience,
            "the list of groups",
            lambda: list(services.get("consumer", "/v1/groups", _SLOW_S)["groups"]),
            _LISTS_S,
        )
        # A node keeps its looks: but for the first time it does not wait.
        self.advice: Kept[dict[str, Any]] = Kept(
            patience,
            "how the lag of groups goes",
            lambda: dict(services.get("consumer", "/v1/advice?over_ms=500", _SLOW_S)),
            _ADVICE_S,
        )

    def _look(self) -> Processes:
        found = processes.look(self.services, self.patience)
        if found.may_read:
            with self._lock:
                self.history.add(found.at, counters(found.each), levels(found.each))
                sums: dict[str, float] = {}
                for row in group_lags(found.each, None, (), internal=True):
                    sums[row.group] = sums.get(row.group, 0) + row.lag
                self.lags.add(found.at, sums)
        return found

    def look(self, within_s: float) -> Found[Processes]:
        """The processes, and with them the rates."""
        return self.processes.get(within_s)

    def kept(self, what: str, look: Callable[[], T]) -> Kept[T]:
        """A source of one page: what takes longer than a page goes on, and the next look has it."""
        with self._lock:
            found = self._others.pop(what, None)
            if found is None:
                found = Kept(self.patience, what, look, LOOK_S)
            self._others[what] = found
            while len(self._others) > _MOST_OTHERS:
                self._others.popitem(last=False)
            return cast("Kept[T]", found)

    def close(self) -> None:
        """Close the connections."""
        self.services.close()
