"""Whoever calls: the services in their name, and what was found for them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from serving.front.limits.shares import Pool
from sqs_gateway.calls.attempts import Attempts
from sqs_gateway.calls.queues import Queues
from sqs_gateway.calls.receiving import Receiving
from sqs_gateway.calls.sending import Sending
from sqs_gateway.calls.services import Services
from sqs_gateway.calls.settling import Action, Settling

_MOST_CALLERS = 256
_CALLS = 256
_READ_MORE_S = 30.0


class Pools:
    """What all callers share: threads of polls, each of which may wait, threads of other calls, and
    room for answers that may be asked for again."""

    def __init__(self, max_waits: int) -> None:
        self.polls = Pool("poll", max_waits + 64)
        self.calls = Pool("call", _CALLS)
        self.attempts = Attempts()


class Caller:
    """One caller. Thread-safe."""

    def __init__(self, key: str | None, services: Services, partitions: int, pools: Pools) -> None:
        self.services = services
        self.queues = Queues(services, partitions, pools.calls)
        self.sending = Sending(services, pools.calls)
        self.settling = Settling(services, pools.calls)
        self.key = key
        self.attempts = pools.attempts

        def ask(path: str, body: dict[str, Any], wait_s: float) -> Any:
            return services.ask_exactly(path, body, wait_s + _READ_MORE_S)

        def give_back(queue: str, records: list[dict[str, Any]]) -> None:
            actions = [Action(record["receipt"], "return") for record in records]
            # Nobody waits for it: if it fails, they come again when their visibility is over.
            self.settling.begin(queue, actions)

        self.give_back = give_back
        self.receiving = Receiving(ask, give_back, pools.polls)


class Callers:
    """By key: made when first needed; the least used are closed. Thread-safe.

    `make` makes the services for a key; None stands for the gateway itself.
    """

    def __init__(
        self, make: Callable[[str | None], Services], partitions: int, pools: Pools
    ) -> None:
        self._make = make
        self._partitions = partitions
        self._pools = pools
        self._lock = threading.Lock()
        self._known: OrderedDict[str | None, Caller] = OrderedDict()

    def of(self, key: str | None) -> Caller:
        """Who calls with this key."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = Caller(
                    key, self._make(key), self._partitions, self._pools
                )
                if len(self._known) > _MOST_CALLERS:
                    self._known.popitem(last=False)[1].services.close()
            else:
                self._known.move_to_end(key)
            return found

    def known(self, key: str | None) -> Caller | None:
        """The same, if it has called before."""
        with self._lock:
            return self._known.get(key)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for one in self._known.values():
                one.services.close()
            self._known.clear()
