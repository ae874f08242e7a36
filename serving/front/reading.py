"""Requests of one connection, put together from its bytes against the bounds of a node."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import httptools

from lakequeue.errors import LakequeueError, MalformedBody
from queue_access.doors import Certificate
from serving.front.call import Route
from serving.front.heads import Head
from serving.front.hub import Hub
from serving.front.limits.budget import Lease
from serving.front.limits.deadlines import body_due
from serving.front.limits.refusals import (
    MAX_AHEAD_REQUESTS,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    body_too_large,
    head_too_large,
)
from serving.front.messages import Answer, Header, Request, Seat, decoded, problem_of
from serving.front.routes import Routes

FREE_HEAD_BYTES = 4 << 10
"""Of a head that no budget counts: that is what usual clients send, and the node has thousands."""
MAX_DISCARDED = 64 << 20
"""A refused body is read to its end and thrown away, up to this: a client that is still sending
would else find the connection closed in place of the answer."""
_SMALL_BYTES, _LARGE_BYTES = 4 << 10, 64 << 10
"""Pieces of a body that are put together, and until when: what has become large is not copied."""
_UPGRADES = frozenset({b"upgrade", b"connection", b"http2-settings"})


class Asked(NamedTuple):
    """A request that is whole; or one that is refused already."""

    request: Request
    route: Route | None
    refusal: Answer | None
    lease: Lease | None
    """What its body takes of the budget."""


class NoRequest(Exception):
    """What comes is no request, and nothing after it can be told apart."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Reading:
    """The requests of one connection. It has its bytes from `feed`, and waits for nothing."""

    __slots__ = (
        "_address",
        "_begins",
        "_body",
        "_discarded",
        "_head_lease",
        "_headers",
        "_hub",
        "_kept_open",
        "_lease",
        "_parser",
        "_received",
        "_request",
        "_route",
        "_routes",
        "_seat",
        "_target",
        "asked",
        "began",
        "certificate",
        "exhausted",
        "head_bytes",
        "is_last",
        "wants_continue",
    )  # fmt: skip

    def __init__(self, hub: Hub, routes: Routes, address: str) -> None:
        self._hub = hub
        self._routes = routes
        self._address = address
        self._seat = Seat()
        self.certificate: Certificate | None = None
        """The client's."""
        self._parser: Any = None
        self._kept_open = True
        """No request said so far that it is the last."""
        self._begins = b""
        """What has just come, if a request begins with it."""
        self.asked: deque[Asked] = deque()
        """In the order in which they came."""
        self.is_last = False
        """The client was told not to send a body that it may never send now."""
        self.exhausted = False
        """More came of a refused body than is worth reading."""
        self._reset()

    def _reset(self) -> None:
        """A new request may begin."""
        self._request: Request | None = None
        self._route: Route | None = None
        self._target = b""
        self._headers: list[Header] = []
        self.head_bytes = 0
        """Bytes of a head that is not complete yet."""
        self._head_lease: Lease | None = None
        """What it takes, if it is large."""
        self._body: list[bytes | bytearray] | None = None
        """Pieces of the body, while one is read; None between requests and in heads."""
        self._received = 0
        self._discarded: int | None = None
        """Bytes thrown away of a body that is refused; None: it is wanted."""
        self._lease: Lease | None = None
        self.began = 0.0
        self.wants_continue = False
        """The client waits to be told that its body is wanted."""

    # -- what the connection asks -----------------------------------------------------------------

    @property
    def takes_body(self) -> bool:
        """A body is read that is wanted."""
        return self._body is not None

    @property
    def discards(self) -> bool:
        """A body is read that is refused."""
        return self._discarded is not None

    @property
    def in_body(self) -> bool:
        """One or the other."""
        return self._body is not None or self._discarded is not None

    @property
    def between(self) -> bool:
        """No head is complete whose body is still to come."""
        return self._request is None and self._body is None

    @property
    def under_way(self) -> bool:
        """A request has begun and is not whole."""
        return self._request is not None or self.head_bytes > 0

    def due(self) -> float:
        """When more of the body must have come."""
        limits = self._hub.limits
        taken = self._received + (self._discarded or 0)
        return body_due(self.began, taken, limits.body_grace_s, limits.body_bytes_per_s)

    def feed(self, data: bytes) -> None:
        """Bytes have come. Raises `NoRequest`."""
        if self.between and not self.head_bytes and self._kept_open:
            known = self._hub.heads.find(data)
            if known is not None:
                self._take(known, data)
                return
            self._begins = data
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
        if self.between:
            self.head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.feed(self._without_upgrade() + data[upgrade.args[0] :])
            return
        except (httptools.HttpParserError, _Refuse) as error:
            self.forget()
            raise NoRequest(self._refusal(error)) from error
        finally:
            self._begins = b""
        if self.between and self.head_bytes > FREE_HEAD_BYTES:
            self._hold_more_of_head()

    def _hold_more_of_head(self) -> None:
        """A head has become large, and is not complete. Raises `NoRequest`."""
        if self.head_bytes > MAX_HEAD_BYTES and not self.asked:
            self.forget()
            raise NoRequest(head_too_large())
        try:
            self._head_lease = self._hub.heads_held.holding(self._head_lease, self.head_bytes)
        except LakequeueError as error:
            self.forget()
            raise NoRequest(problem_of(error)) from None

    def _take(self, head: Head, data: bytes) -> None:
        """A request that is whole, and whose head is known."""
        request = Request(
            head.method,
            head.target,
            head.path,
            head.query,
            head.headers,
            self._address,
            certificate=self.certificate,
            seat=self._seat,
        )
        lease = self._hub.bodies.lease()
        try:
            route = self._routes.find(request)
            if len(data) - head.size > route.max_body:
                raise body_too_large(route.max_body)
            lease.grow(len(data) - head.size)
        except LakequeueError as error:
            one = Asked(request, None, problem_of(error), None)
        else:
            request.body = data[head.size :]
            one = Asked(request, route, None, lease)
        try:
            self._put(one)
        except _Refuse:
            self.forget()
            raise NoRequest(head_too_large()) from None

    def forget(self) -> None:
        """Nothing more is read: give the memory back."""
        self._drop_body()
        if self._head_lease is not None:
            self._head_lease.shrink_to(0)
            self._head_lease = None
        if self._request is not None:
            self._request.forget_head()
        self._parser = None

    def close(self) -> None:
        """The connection is over."""
        self.forget()
        self._hub.gate.left(self._seat)
        for one in self.asked:
            one.request.forget_head()
            if one.lease is not None:
                one.lease.shrink_to(0)
        self.asked.clear()

    def _refusal(self, error: Exception) -> Answer:
        of_ours = isinstance(error, httptools.HttpParserCallbackError)
        cause = error.__context__ if of_ours else error
        if cause is None or isinstance(cause, _Refuse):
            return head_too_large()
        if of_ours:
            return self._hub.failed(cause, "")
        said = f"this is not HTTP: {error}"
        return problem_of(MalformedBody(said, hint="see /openapi.json", stored="no"))

    def _without_upgrade(self) -> bytes:
        """The head again, as of a request that offers no other protocol: we have none."""
        method = self._parser.get_method()
        self._parser = None
        lines = [method + b" " + self._target + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in self._headers if name not in _UPGRADES]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    # -- what the parser tells --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._target, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        if len(self._headers) >= MAX_HEADERS:
            raise _Refuse
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is there: is the rest wanted?"""
        parser = self._parser
        if parser.get_method() == b"CONNECT":
            raise _Refuse
        if parser.should_upgrade():
            return
        target, path, query = _parts_of(self._target)
        request = Request(
            parser.get_method().decode("ascii"),
            target,
            decoded(path),
            query.decode("latin-1"),
            self._headers,
            self._address,
            parser.get_http_version(),
            parser.should_keep_alive(),
            certificate=self.certificate,
            seat=self._seat,
        )
        self._request = request
        self._kept_open &= request.keep_alive
        self.began = self._hub.now()
        self.head_bytes = 0
        self._received = 0
        request.held, self._head_lease = self._head_lease, None
        try:
            size = request.head_bytes()
            if size > FREE_HEAD_BYTES or self.asked:
                request.held = self._hub.heads_held.holding(request.held, size)
            self._route = self._routes.find(request)
            length = request.header(b"content-length")
            if length and int(length) > self._route.max_body:
                raise body_too_large(self._route.max_body)
        except LakequeueError as error:
            self._refuse_body(problem_of(error))
            return
        self._body = []
        self.wants_continue = request.header(b"expect").lower() == "100-continue"

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        if self._discarded is not None:
            self._discarded += len(piece)
            self.exhausted |= self._discarded > MAX_DISCARDED
            return
        if self._body is None or self._route is None:
            return
        self._received += len(piece)
        try:
            if self._received > self._route.max_body:
                raise body_too_large(self._route.max_body)
            if self._lease is None:
                self._lease = self._hub.bodies.lease()
            self._lease.grow(len(piece))
        except LakequeueError as error:
            self._refuse_body(problem_of(error))
            return
        _keep(self._body, piece)

    def on_message_complete(self) -> None:
        """The request is whole."""
        request, body = self._request, self._body
        if request is None:
            return
        if self._discarded is None and body is not None:
            request.body = bytes(body[0]) if len(body) == 1 else b"".join(body)
            if self._begins and request.body:
                self._hub.heads.learn(self._begins, request)
            lease, self._lease = self._lease, None
            self._put(Asked(request, self._route, None, lease))
        self._reset()

    def _put(self, one: Asked) -> None:
        self.asked.append(one)
        if len(self.asked) > MAX_AHEAD_REQUESTS:
            raise _Refuse

    def _refuse_body(self, answer: Answer) -> None:
        """Answer now; what is still to come of the body is thrown away."""
        request = self._request
        if request is None:
            return
        self.is_last |= bool(request.header(b"expect"))
        self._drop_body()
        self._discarded = self._received
        request.forget_head()
        self._put(Asked(request, None, answer, None))

    def _drop_body(self) -> None:
        self._body = None
        if self._lease is not None:
            self._lease.shrink_to(0)
            self._lease = None


def _keep(body: list[bytes | bytearray], piece: bytes) -> None:
    """Put a piece to the others: small ones into one, as each would take fifty bytes of its own.

    A body of two bytes a chunk took thirty times what was counted.
    """
    if body and len(piece) < _SMALL_BYTES and len(last := body[-1]) < _LARGE_BYTES:
        if not isinstance(last, bytearray):
            body[-1] = last = bytearray(last)
        last += piece
        return
    body.append(piece)


class _Refuse(Exception):
    """A request beyond the bounds of a head."""


def _parts_of(target: bytes) -> tuple[bytes, bytes, bytes]:
    """The target without its host, its path, its query."""
    if target.startswith(b"/"):
        path, _, query = target.partition(b"?")
        return target, path, query.partition(b"#")[0]
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserError:
        raise _Refuse from None
    path, query = url.path or b"/", url.query or b""
    return path + (b"?" + query if query else b""), path, query
