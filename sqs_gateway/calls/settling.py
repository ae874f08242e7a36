"""Deletes and changes of visibility: receipts on their way to whoever has the partition."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal

from lakequeue.calling.nodes import Nodes
from lakequeue.errors import (
    AttemptSuperseded,
    InvalidRequest,
    NotReady,
    UnknownGroup,
    UnknownTopic,
)
from serving.front.limits.shares import Pool
from sqs_gateway.calls.combining import Combined
from sqs_gateway.calls.services import Services
from sqs_gateway.rules.names import is_fifo

Outcome = str
"""`done`, or why not, in the words of the services: `superseded`, `timed_out`, `settled`, …"""
DONE: Outcome = "done"
_AT_ONCE = 2
_MOST = 2_000
_MOST_GROUPS = 1_000
_MOST_MOVES = 5
"""So often a receipt follows its partition within one call."""


@dataclass(frozen=True, slots=True)
class Action:
    """What is to become of one receipt."""

    receipt: str
    does: Literal["ack", "hide", "give_back", "return"]
    """`return`: nobody has seen the message, so its receive does not count."""
    ms: int = 0


class Settling:
    """Settles in the name of one caller. Thread-safe.

    A FIFO queue refuses a delete when the visibility of its message is over. Another queue takes
    it for as long as nobody else has got the message.
    """

    def __init__(self, services: Services, pool: Pool) -> None:
        self._services = services
        self._pool = pool
        self._lock = threading.Lock()
        self._groups: OrderedDict[str, Combined[Action, Outcome]] = OrderedDict()

    def settle(self, group: str, actions: Sequence[Action]) -> list[Outcome | Exception]:
        """What became of each receipt. It is durable."""
        return self.begin(group, actions).result()

    def begin(self, group: str, actions: Sequence[Action]) -> Future[list[Outcome | Exception]]:
        """The same, when it is there."""
        return self._of(group).begin(actions)

    def _of(self, group: str) -> Combined[Action, Outcome]:
        with self._lock:
            found = self._groups.get(group)
            if found is None:
                found = self._groups[group] = Combined(
                    lambda some: self._say(group, some),
                    pool=self._pool,
                    at_once=_AT_ONCE,
                    most=_MOST,
                )
                if len(self._groups) > _MOST_GROUPS:
                    # Whoever waits there has it still.
                    self._groups.popitem(last=False)
            else:
                self._groups.move_to_end(group)
            return found

    def _say(self, group: str, actions: list[Action]) -> list[Outcome | Exception]:
        """A receipt is named once in a request: what is said of it later goes into a later one."""
        outcomes: dict[int, Outcome | Exception] = {}
        left = list(enumerate(actions))
        while left:
            now: dict[str, tuple[int, Action]] = {}
            later: list[tuple[int, Action]] = []
            for number, action in left:
                if action.receipt in now:
                    later.append((number, action))
                else:
                    now[action.receipt] = (number, action)
            said = self._post(group, [action for _, action in now.values()])
            outcomes |= {number: said[action.receipt] for number, action in now.values()}
            left = later
        return [outcomes[number] for number in range(len(actions))]

    def _post(
        self, group: str, actions: list[Action], nodes: Nodes | None = None, moves: int = 0
    ) -> dict[str, Outcome | Exception]:
        """`nodes`: where the receipts were sent, after so many `moves`; None: to any node."""
        services = self._services
        path = f"/v1/groups/{group}/acks"
        found: dict[str, Outcome | Exception] = {one.receipt: DONE for one in actions}
        try:
            body = _body(actions) | {"late_acks": not is_fifo(group)}
            services.ask(nodes or services.consumer, "POST", path, body)
        except AttemptSuperseded as error:
            elsewhere: dict[str, list[Action]] = {}
            by_receipt = {one.receipt: one for one in actions}
            for refused in error.extra.get("refused", ()):
                receipt, why = refused["receipt"], refused["why"]
                found[receipt] = why
                if why == "elsewhere":
                    elsewhere.setdefault(refused["location"], []).append(by_receipt[receipt])
            for url, some in elsewhere.items():
                if moves < _MOST_MOVES:
                    found |= self._post(group, some, Nodes(url), moves + 1)
                else:
                    found |= dict.fromkeys((one.receipt for one in some), _moves_on(url))
        except (UnknownTopic, UnknownGroup) as error:
            found = dict.fromkeys(found, error.code)
        except InvalidRequest as error:
            counted = [replace(a, does="give_back") if a.does == "return" else a for a in actions]
            if counted == actions:
                return dict.fromkeys(found, error)
            # Services of an earlier release know of no receive that does not count.
            return self._post(group, counted, nodes, moves)
        except Exception as error:  # noqa: BLE001 -- whoever asked gets it
            found = dict.fromkeys(found, error)
        return found


def _moves_on(url: str) -> NotReady:
    return NotReady(
        f"the partition has moved {_MOST_MOVES + 1} times meanwhile, to {url} at last",
        hint="send it again",
        stored="no",
    )


def _body(actions: list[Action]) -> dict[str, Any]:
    body: dict[str, Any] = {"acks": [], "nacks": [], "extend": []}
    for one in actions:
        if one.does == "ack":
            body["acks"].append(one.receipt)
        elif one.does == "give_back":
            body["nacks"].append({"receipt": one.receipt, "delay_ms": 0})
        elif one.does == "return":
            body["nacks"].append({"receipt": one.receipt, "delay_ms": 0, "unopened": True})
        else:
            body["extend"].append(
                {
                    "receipt": one.receipt,
                    "visibility_timeout_ms": one.ms,
                    "may_shorten": True,
                }
            )
    return {name: some for name, some in body.items() if some}
