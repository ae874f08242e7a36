"""One call to a service: which node, which redirect, how often again, and what then.

A call is repeated only when the error says that repeating helps (`TryAgain`, or no answer), after
a pause with jitter that doubles, never shorter than the server's Retry-After. A node that is itself
in trouble is left, and the next one is asked at once, until all have been. What is repeated is the
same bytes, so an idempotent request stays single.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import orjson

from lakequeue.calling.effects import Http, Now, Reply, Request, Script, Unanswered, Wait
from lakequeue.calling.nodes import Choice
from lakequeue.errors import (
    LakequeueError,
    NotReady,
    StorageUnavailable,
    Stored,
    TryAgain,
    Unreachable,
)
from lakequeue.wire import PROBLEM, from_problem

_log = logging.getLogger("lakequeue.calls")
MAX_REDIRECTS = 5
_ANOTHER_MAY = (Unreachable, NotReady, StorageUnavailable)
"""Another node may well do it: this one is gone, going, or cut off from the storage."""
_silent: set[str] = set()
"""Nodes that were said not to answer, and have not answered since."""
_LEAST_PAUSE_S, _FIRST_PAUSE_S, _MOST_PAUSE_S = 0.02, 0.05, 5.0


def _nothing() -> Script[None]:
    yield from ()


@dataclass(slots=True)
class CallPolicy:
    """How long a call keeps trying. `sticky` calls stay with the current node."""

    deadline_s: float | None = None
    """Seconds from the start of the call; None: until `give_up()`."""
    give_up: Callable[[], bool] = field(default=lambda: False)
    sticky: bool = False
    between: Callable[[], Script[None]] = _nothing
    """What is done before each pause: a call without end may have to learn of other nodes."""
    final: tuple[type[LakequeueError], ...] = ()
    """These end the call, although to repeat it would help."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful reply, and the node it came from."""

    reply: Reply
    node: str
    attempts: int


def pause_before(attempt: int) -> float:
    """Seconds before retry number `attempt` (from 1): full jitter, doubling, at most 5."""
    # 2 ** 7 is enough to reach the most; a power of the thousandth attempt is no float.
    longest = min(_FIRST_PAUSE_S * 2 ** min(attempt - 1, 7), _MOST_PAUSE_S)
    return random.uniform(_LEAST_PAUSE_S, longest)


def _pause_after(error: LakequeueError, attempt: int, *, untried: bool) -> float:
    """Seconds; none if a node comes next that was not asked yet: Retry-After is about the other."""
    return 0.0 if untried else max(pause_before(attempt), error.retry_after_s or 0.0)


def call(nodes: Choice, request: Request, now: Now, policy: CallPolicy) -> Script[Answer]:
    """Send `request` until it is answered for good.

    Raises the error of the service; `Unreachable` when no node answers in time. `stored` of the
    error covers every attempt: "no" only if none of them can have been stored.
    """
    start, attempt, maybe_stored = now(), 0, False
    while True:
        attempt += 1
        node = nodes.current
        error: LakequeueError
        asked = node
        try:
            reply, node = yield from _follow(node, request)
        except Unanswered as e:
            error = Unreachable(
                f"{node} does not answer: {e}",
                hint="check the URL, or start the services with `lakequeue up`",
                stored="unknown" if e.sent else "no",
                url=node,
            )
        else:
            _silent.discard(asked)
            if reply.status < 300:
                nodes.served(asked)
                return Answer(reply, node, attempt)
            error = problem_of(reply, node)
        maybe_stored |= _may_be_stored(error)
        if maybe_stored and error.stored != "yes":
            error.stored = "unknown"
        if not isinstance(error, TryAgain) or isinstance(error, policy.final):
            raise error
        moves = isinstance(error, _ANOTHER_MAY) and not policy.sticky
        if moves:
            nodes.leave(node)
        pause = _pause_after(error, attempt, untried=moves and attempt < len(nodes))
        out_of_time = policy.deadline_s is not None and now() - start + pause > policy.deadline_s
        if out_of_time or policy.give_up():
            raise error
        _warn_once(asked, error)
        if pause:
            yield from policy.between()
            yield Wait(policy.give_up, pause)


def _warn_once(node: str, error: LakequeueError) -> None:
    """A wrong address is seen at the first attempt, and not only when all attempts are over."""
    if isinstance(error, Unreachable) and node not in _silent:
        _silent.add(node)
        _log.warning("%s; trying again. Hint: %s", error.detail, error.hint)


def _follow(node: str, request: Request) -> Script[tuple[Reply, str]]:
    """Send to `node`, following redirects with the same method and body."""
    url = node + request.path
    for _ in range(MAX_REDIRECTS + 1):
        reply: Reply = yield Http(url, request)
        location = reply.headers.get("location")
        if reply.status not in {307, 308} or not location or _is_ours(reply):
            return reply, node
        url = urljoin(url, location)
        parts = urlsplit(url)
        node = f"{parts.scheme}://{parts.netloc}"
    raise Unanswered(f"more than {MAX_REDIRECTS} redirects", sent=False)


def _is_ours(reply: Reply) -> bool:
    """A redirect that is no address of the same thing, but tells to join elsewhere."""
    return reply.headers.get("content-type", "").startswith(PROBLEM)


def problem_of(reply: Reply, node: str) -> LakequeueError:
    """The error that a reply of status 300 and above stands for."""
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        # Not ours: a proxy, or a server that fell over before it could say more.
        body = {"detail": f"{node} answered HTTP {reply.status}"}
    error = from_problem(body, reply.status)
    if error.retry_after_s is None:
        seconds = reply.headers.get("retry-after", "")
        error.retry_after_s = float(seconds) if seconds.replace(".", "", 1).isdigit() else None
    return error


def _may_be_stored(error: LakequeueError) -> bool:
    stored: Stored | None = error.stored
    return stored in {"unknown", "yes"} or (stored is None and error.http_status >= 500)
