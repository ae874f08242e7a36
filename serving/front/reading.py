"""Requests of one connection, put together from its bytes against the bounds of a node."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import httptools

from lakequeue.errors import LakequeueError
from queue_access.doors import Certificate
from serving.front.bodies import Body
from serving.front.call import Route
from serving.front.head_parts import parts_of, unknown_codings, without_upgrade
from serving.front.heads import END, Head
from serving.front.hub import Hub
from serving.front.limits.budget import Lease
from serving.front.limits.deadlines import body_due
from serving.front.limits.refusals import (
    MAX_AHEAD_REQUESTS,
    MAX_BARE_BYTES,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    body_too_large,
    head_too_large,
    no_http,
    not_implemented,
    trailers_too_large,
)
from serving.front.messages import Answer, Header, Request, Seat, decoded, problem_of
from serving.front.routes import Routes

FREE_HEAD_BYTES = 4 << 10
"""Of a head that no budget counts: that is what usual clients send, and the node has thousands."""


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
        "_address", "_alone", "_begins", "_begun", "_body", "_content", "_early", "_headers",
        "_held", "_hub", "_kept_open", "_parser", "_request", "_route", "_routes", "_seat",
        "_target", "asked", "began", "certificate", "exhausted", "head_bytes", "is_last",
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
        self._early = b""
        """A head that is known, until its body has come."""
        self._alone = b""
        """A head that has just come without its body, and was parsed."""
        self.asked: deque[Asked] = deque()
        """In the order in which they came."""
        self.is_last = False
        """The client was told not to send a body that it may never send now."""
        self.exhausted = False
        """More came of a refused body than is worth reading."""
        self._content = 0
        """Bytes of what has just come that are content of bodies."""
        self._held: Lease | None = None
        """What a large head takes that is not complete yet, or what a body has beside content."""
        self._reset()

    def _reset(self) -> None:
        """A new request may begin."""
        self._request: Request | None = None
        self._route: Route | None = None
        self._target = b""
        self._headers: list[Header] = []
        self._begun = False
        """Something of its head is there."""
        self.head_bytes = 0
        """Bytes of a head that is not complete yet, at most; never 0 when it has begun."""
        self._body: Body | None = None
        """Its body, while one is read; None between requests and in heads."""
        self._hold(0)
        self.began = 0.0
        self.wants_continue = False
        """The client waits to be told that its body is wanted."""

    # -- what the connection asks -----------------------------------------------------------------

    @property
    def takes_body(self) -> bool:
        """A body is read that is wanted."""
        return self._body is not None and not self._body.refused

    @property
    def discards(self) -> bool:
        """A body is read that is refused."""
        return self._body is not None and self._body.refused

    @property
    def in_body(self) -> bool:
        """One or the other."""
        return self._body is not None

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
        taken = 0 if self._body is None else self._body.taken
        return body_due(self.began, taken, limits.body_grace_s, limits.body_bytes_per_s)

    def feed(self, data: bytes) -> None:
        """Bytes have come. Raises `NoRequest`."""
        if self.between and self._kept_open and (self._early or not self.head_bytes):
            heads, early = self._hub.heads, self._early
            if early:
                data, self._early, self.head_bytes = early + data, b"", 0
            known = heads.find(data)
            if known is not None:
                self._take(known, data)
                return
            if not early and heads.awaits_body(data):
                # Its client writes the body by itself, and that is on its way.
                self._early, self.head_bytes = data, len(data)
                return
            self._begins = data
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
        if self.between:
            self.head_bytes += len(data)
        self._content = 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.feed(self._without_upgrade() + data[upgrade.args[0] :])
            return
        except (httptools.HttpParserError, _Refuse) as error:
            self._give_up(self._refusal(error))
            return
        finally:
            alone = self._request is not None and self._begins.endswith(END)
            self._alone, self._begins = self._begins if alone else b"", b""
        self._count(data)

    def _count(self, data: bytes) -> None:
        """What the parser may keep of `data`, and nobody else knows of. Raises `NoRequest`."""
        if self._begun and not self.head_bytes:
            # It came with the end of what was asked before, where no head was looked for.
            before = max(self._content, data.rfind(END) + len(END) if END in data else 0)
            self.head_bytes = max(1, len(data) - before)
        body = self._body
        size = self.head_bytes if body is None else body.bare_bytes(len(data), self._content)
        if size <= FREE_HEAD_BYTES and self._held is None:
            return
        if body is None and size > MAX_HEAD_BYTES and not self.asked:
            self._give_up(head_too_large())
        elif body is not None and size > MAX_BARE_BYTES:
            self._give_up(trailers_too_large())
        else:
            try:
                self._hold(size)
            except LakequeueError as error:
                self._give_up(problem_of(error))

    def _hold(self, size: int) -> None:
        """So much of the budget of heads. Raises `Overloaded`."""
        if size:
            self._held = self._hub.heads_held.holding(self._held, size)
        elif self._held is not None:
            self._held.shrink_to(0)
            self._held = None

    def _give_up(self, answer: Answer) -> None:
        """Nothing after this can be told apart. Raises `NoRequest`, and nothing that waits is done,
        unless what is read now has its answer: another one would be taken for that of another
        request.
        """
        self.exhausted = self.discards
        self.forget()
        if not self.exhausted:
            self.drop_asked()
            raise NoRequest(answer)

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
        except _Refuse as refused:
            self._give_up(refused.answer)

    def forget(self) -> None:
        """Nothing more is read: give the memory back."""
        if self._body is not None:
            self._body.drop()
            self._body = None
        self._hold(0)
        if self._request is not None:
            self._request.forget_head()
        self._parser = None
        self._early = b""

    def close(self) -> None:
        """The connection is over."""
        self.forget()
        self._hub.gate.left(self._seat)
        self.drop_asked()

    def drop_asked(self) -> None:
        """What is whole and was not begun is not done: give its memory back."""
        for one in self.asked:
            one.request.forget_head()
            if one.lease is not None:
                one.lease.shrink_to(0)
        self.asked.clear()

    def _refusal(self, error: Exception) -> Answer:
        of_ours = isinstance(error, httptools.HttpParserCallbackError)
        cause = error.__context__ if of_ours else error
        if isinstance(cause, _Refuse):
            return cause.answer
        return self._hub.failed(cause, "") if of_ours and cause else no_http(error)

    def _without_upgrade(self) -> bytes:
        """The head again, as of a request that offers no other protocol."""
        parser, self._parser = self._parser, None
        method, version = parser.get_method(), parser.get_http_version()
        return without_upgrade(method, self._target, version, self._headers)

    # -- what the parser tells --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._target, self._headers = b"", []
        self._begun = True

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or a trailer, of which nobody has judged anything: it is passed over."""
        if self._request is not None:
            return
        if len(self._headers) >= MAX_HEADERS:
            raise _Refuse(head_too_large())
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is there: is the rest wanted?"""
        parser = self._parser
        if parser.get_method() == b"CONNECT":
            raise _Refuse(not_implemented("tunnels"))
        if parser.should_upgrade():
            return
        parts = parts_of(self._target)
        if parts is None:
            raise _Refuse(no_http("the target is neither a path nor an http:// URL"))
        codings = unknown_codings(self._headers)
        if codings:
            raise _Refuse(not_implemented(f"transfer coding {codings.decode('latin-1')!r}"))
        target, path, query = parts
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
        self._begun = False
        self._body = body = Body(self._hub.bodies)
        request.held, self._held = self._held, None
        try:
            size = request.head_bytes()
            if size > FREE_HEAD_BYTES or self.asked:
                request.held = self._hub.heads_held.holding(request.held, size)
            self._route = self._routes.find(request)
            body.most = self._route.max_body
            length = request.header(b"content-length")
            if length and int(length) > body.most:
                raise body_too_large(body.most)
        except LakequeueError as error:
            self._refuse_body(problem_of(error))
            return
        self.wants_continue = request.header(b"expect").lower() == "100-continue"

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._content += len(piece)
        body = self._body
        if body is None:
            return
        try:
            body.add(piece)
        except LakequeueError as error:
            self._refuse_body(problem_of(error))
        self.exhausted |= body.exhausted

    def on_message_complete(self) -> None:
        """The request is whole."""
        request, body = self._request, self._body
        if request is None:
            return
        if body is not None and not body.refused:
            request.body, lease = body.whole()
            if request.body and (self._begins or self._alone):
                came = self._begins or self._alone + request.body
                self._hub.heads.learn(came, request)
            self._put(Asked(request, self._route, None, lease))
        self._reset()

    def _put(self, one: Asked) -> None:
        self.asked.append(one)
        if len(self.asked) > MAX_AHEAD_REQUESTS:
            raise _Refuse(head_too_large())

    def _refuse_body(self, answer: Answer) -> None:
        """Answer now; what is still to come of the body is thrown away."""
        request, body = self._request, self._body
        if request is None or body is None:
            return
        self.is_last |= bool(request.header(b"expect"))
        body.refuse()
        request.forget_head()
        self._put(Asked(request, None, answer, None))


class _Refuse(Exception):
    """A request beyond the bounds of a head."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer
