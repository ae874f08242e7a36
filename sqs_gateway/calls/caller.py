"""Whoever calls: the services in their name, and what was found for them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from sqs_gateway.calls.queues import Queues
from sqs_gateway.calls.sending import Sending
from sqs_gateway.calls.services import Services
from sqs_gateway.calls.settling import Settling

_MOST_CALLERS = 256


class Caller:
    """One caller. Thread-safe."""

    def __init__(self, services: Services, partitions: int) -> None:
        self.services = services
        self.queues = Queues(services, partitions)
        self.sending = Sending(services)
        self.settling = Settling(services)


class Callers:
    """By key: made when first needed; the least used are closed. Thread-safe.

    `make` makes the services for a key; None stands for the gateway itself.
    """

    def __init__(self, make: Callable[[str | None], Services], partitions: int) -> None:
        self._make = make
        self._partitions = partitions
        self._lock = threading.Lock()
        self._known: OrderedDict[str | None, Caller] = OrderedDict()

    def of(self, key: str | None) -> Caller:
        """Who calls with this key."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = Caller(self._make(key), self._partitions)
                if len(self._known) > _MOST_CALLERS:
                    self._known.popitem(last=False)[1].services.close()
            else:
                self._known.move_to_end(key)
            return found

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for one in self._known.values():
                one.services.close()
            self._known.clear()
