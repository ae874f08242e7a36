"""One connection: requests are read whole against deadlines and budgets, answers are written.

Everything here runs in the event loop's thread and waits for nothing.
"""

# longer than 400 lines: the life of one connection, as one state machine

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

import httptools

from lakequeue.errors import LakequeueError, MalformedBody, TooLarge, TooSlow
from serving.front.budget import Lease
from serving.front.deadlines import NEVER, body_due
from serving.front.messages import (
    LAST_CHUNK,
    Answer,
    Header,
    Request,
    chunk_of,
    decoded,
    head_of,
    problem_of,
)

if TYPE_CHECKING:
    from serving.front.call import Call
    from serving.front.front import Front, Route
    from serving.front.shares import Share

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_AHEAD_BYTES = 64 << 10
"""What a client may send before it has the answer to what it sent before."""
MAX_AHEAD_REQUESTS = 16
MAX_DISCARDED = 64 << 20
"""A refused body is read to its end and thrown away, up to this: a client that is still sending
would else find the connection closed in place of the answer."""
_LINGER_S = 2.0
_STALLED_S = 1.0
"""An answer that has waited to be read for so long makes room for others when it has to."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    """See the module. `due` and `slot` belong to the wheel of deadlines."""

    __slots__ = (
        "_ahead", "_answering", "_began", "_body", "_call", "_closing", "_discarded", "_front",
        "_head_bytes", "_headers", "_lease", "_left", "_parser", "_queue", "_reading", "_received",
        "_refused", "_request", "_route", "_share", "_target", "_transport", "_unread",
        "_write_began", "_written", "address", "due", "opened_at", "slot",
    )  # fmt: skip

    def __init__(self, front: Front) -> None:
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self.address = ""
        self.due = NEVER
        self.slot: int | None = None
        self.opened_at = 0.0
        self._call: Call | None = None
        """Who answers the request that was read last but is not answered yet."""
        self._answering: Answer | None = None
        self._queue: deque[tuple[Request, Route | None, Answer | None, Lease | None]] = deque()
        self._ahead: list[bytes] = []
        self._closing = False
        """Nothing more is served here after the answer that is under way."""
        self._refused = False
        """No request is read at all: too many connections."""
        self._reading = True
        self._left = False
        """The client has closed its end, or is gone."""
        self._write_began = 0.0
        self._written = 0
        self._share: Share | None = None
        """Whose answer is written."""
        self._unread = 0
        """Bytes of answers that are counted as not read yet."""
        self._reset()

    def _reset(self) -> None:
        """A new request may begin."""
        self._request: Request | None = None
        self._route: Route | None = None
        self._target = b""
        self._headers: list[Header] = []
        self._head_bytes = 0
        self._body: list[bytes] | None = None
        """Pieces of the body, while one is read; None between requests and in heads."""
        self._received = 0
        self._discarded: int | None = None
        """Bytes thrown away of a body that is refused; None: it is wanted."""
        self._lease: Lease | None = None
        self._began = 0.0

    # -- the transport ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        self._transport = cast(asyncio.Transport, transport)
        # So that `resume_writing` says that everything has left.
        self._transport.set_write_buffer_limits(high=0)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self.opened_at = self._front.now()
        refusal = self._front.opened(self)
        if refusal is not None:
            self._refused = True
            self._transport.write(self._head(refusal, close=True) + refusal.body)
            self._until(self._front.now() + _LINGER_S)
            return
        self._until(self._front.now() + self._front.limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, whoever ended it."""
        self._left = True
        self._count_unread(0)
        self._front.wheel.drop(self)
        self._front.closed(self)
        self._drop_body()
        for _, _, _, lease in self._queue:
            if lease is not None:
                lease.shrink_to(0)
        self._queue.clear()
        self._parser = None
        call, self._call = self._call, None
        answer, self._answering = self._answering, None
        if answer is not None and answer.lost is not None:
            answer.lost()
        if call is not None:
            call.left()

    def eof_received(self) -> bool:
        """The client sends no more; it may still read."""
        self._left = True
        if self._call is None and self._answering is None:
            return False
        self._closing = True
        if self._call is not None:
            self._call.hung_up()
        return True

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._refused:
            return
        if self._call is not None and self._body is None and self._discarded is None:
            self._ahead.append(data)
            if sum(map(len, self._ahead)) > MAX_AHEAD_BYTES:
                self._pause_reading()
            return
        self._feed(data)

    def pause_writing(self) -> None:
        """Something is left to write: `_wrote` has noticed."""

    def _count_unread(self, left: int) -> None:
        """So many bytes wait for the client to take them."""
        if self._share is not None:
            self._share.unread += left - self._unread
        self._front.stalled.pop(self, None)
        if left:
            self._front.stalled[self] = None
        self._unread = left

    def resume_writing(self) -> None:
        """Everything has left."""
        self._count_unread(0)
        if self._answering is not None and self._call is None:
            self._answered()
        elif self._call is not None:
            self._until(NEVER)
            self._call.drained()

    # -- reading ----------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
        if self._request is None and self._body is None:
            if not self._head_bytes:
                self._until(self._front.now() + self._front.limits.header_s)
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed(self._without_upgrade() + data[upgrade.args[0] :])
            return
        except (httptools.HttpParserError, _Refuse) as error:
            self._refuse_stream(error)
            return
        if self._parser is not None and self._body is None and self._request is None:
            self._check_head()
        if self._body is not None or self._discarded is not None:
            self._keep_pace()
        self._advance()

    def _without_upgrade(self) -> bytes:
        """The head again, as of a request that offers no other protocol: we have none."""
        method = self._parser.get_method()
        self._parser = None
        lines = [method + b" " + self._target + b" HTTP/1.1"]
        lines += [
            name + b": " + value
            for name, value in self._headers
            if name not in {b"upgrade", b"connection", b"http2-settings"}
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _check_head(self) -> None:
        if self._head_bytes > MAX_HEAD_BYTES and not self._queue and self._call is None:
            self._refuse_stream(None)

    def _keep_pace(self) -> None:
        """The body has to go on coming."""
        limits = self._front.limits
        taken = self._received + (self._discarded or 0)
        due = body_due(self._began, taken, limits.body_grace_s, limits.body_bytes_per_s)
        # While an answer is written its own deadline stands.
        if self._answering is None:
            self._until(due)

    def on_message_begin(self) -> None:
        """(parser) A request begins."""
        self._target, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        """(parser) A part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """(parser) A header."""
        if len(self._headers) >= MAX_HEADERS:
            raise _Refuse
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """(parser) The head is there: is the rest wanted?"""
        target, parser = self._target, self._parser
        if parser.get_method() == b"CONNECT":
            raise _Refuse
        if parser.should_upgrade():
            return
        if target.startswith(b"/"):
            path, _, query = target.partition(b"?")
            query = query.partition(b"#")[0]
        else:
            try:
                url = httptools.parse_url(target)
            except httptools.HttpParserError:
                raise _Refuse from None
            path, query = url.path or b"/", url.query or b""
            target = path + (b"?" + query if query else b"")
        request = Request(
            parser.get_method().decode("ascii"),
            target,
            decoded(path),
            query.decode("latin-1"),
            self._headers,
            self.address,
            parser.get_http_version(),
            parser.should_keep_alive(),
        )
        self._request = request
        self._began = self._front.now()
        self._head_bytes = 0
        self._received = 0
        try:
            self._route = self._front.route(request)
            length = request.header(b"content-length")
            most = self._route.max_body
            if length and int(length) > most:
                raise too_large(most)
        except LakequeueError as error:
            self._refuse_body(problem_of(error))
            return
        self._body = []
        if request.header(b"expect").lower() == "100-continue" and self._transport is not None:
            self._transport.write(_CONTINUE)

    def on_body(self, piece: bytes) -> None:
        """(parser) A piece of the body."""
        if self._discarded is not None:
            self._discarded += len(piece)
            if self._discarded > MAX_DISCARDED:
                self._closing = self._refused = True
                if self._answering is None:
                    self._until(self._front.now())
            return
        if self._body is None or self._route is None:
            return
        self._received += len(piece)
        try:
            if self._received > self._route.max_body:
                raise too_large(self._route.max_body)
            if self._lease is None:
                self._lease = self._front.bodies.lease()
            self._lease.grow(len(piece))
        except LakequeueError as error:
            self._refuse_body(problem_of(error))
            return
        self._body.append(piece)

    def on_message_complete(self) -> None:
        """(parser) The request is whole."""
        request, body, refused = self._request, self._body, self._discarded is not None
        if request is None:
            return
        if not refused and body is not None:
            request.body = body[0] if len(body) == 1 else b"".join(body)
            lease, self._lease = self._lease, None
            self._put((request, self._route, None, lease))
        self._reset()

    def _put(self, one: tuple[Request, Route | None, Answer | None, Lease | None]) -> None:
        self._queue.append(one)
        if len(self._queue) > MAX_AHEAD_REQUESTS:
            raise _Refuse

    def _refuse_body(self, answer: Answer) -> None:
        """Answer now; what is still to come of the body is thrown away."""
        request = self._request
        if request is None:
            return
        if request.header(b"expect"):
            # The client may never send it now.
            self._closing = True
        self._drop_body()
        self._discarded = self._received
        self._put((request, None, answer, None))

    def _drop_body(self) -> None:
        self._body = None
        if self._lease is not None:
            self._lease.shrink_to(0)
            self._lease = None

    def _refuse_stream(self, error: Exception | None) -> None:
        """What comes is no request, and nothing after it can be told apart."""
        self._drop_body()
        self._closing = True
        self._parser = None
        self._refused = True
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
        if cause is None or isinstance(cause, _Refuse):
            answer = problem_of(_head_too_large())
            answer.status = 431
        elif isinstance(error, httptools.HttpParserCallbackError):
            answer = self._front.failed(cause, "")
        else:
            answer = problem_of(
                MalformedBody(f"this is not HTTP: {error}", hint="see /openapi.json", stored="no")
            )
        if self._call is None and self._answering is None:
            self._write(answer)

    # -- answering --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin with the next request that is whole, if nothing is under way."""
        while self._call is None and self._answering is None and not self._left:
            if not self._queue:
                if not self._ahead or self._refused:
                    break
                data, self._ahead = b"".join(self._ahead), []
                self._resume_reading()
                self._feed(data)
                continue
            request, route, answer, lease = self._queue.popleft()
            self._closing |= not request.keep_alive or self._front.draining
            if answer is not None or route is None:
                self._write(answer or problem_of(_head_too_large()))
                continue
            if self._body is None and self._discarded is None:
                self._until(NEVER)
            self._call = call = self._front.call(self, request, route, lease)
            call.begin()

    def answer(self, answer: Answer, request: Request, share: Share) -> None:
        """Write the answer of the call under way; it is over with this."""
        self._call = None
        self._share = share
        if request.method == "HEAD" and answer.body:
            answer.headers = [*answer.headers, ("Content-Length", str(len(answer.body)))]
            answer.body = b""
        self._write(answer)
        self._advance()

    def begin_pieces(self, answer: Answer, request: Request) -> None:
        """The head of an answer in pieces; the call goes on."""
        if request.version == "1.0":
            self._closing = True
        self._send(self._head(answer, close=self._closing, chunked=request.version != "1.0"))

    def piece(self, piece: bytes, request: Request, share: Share) -> bool:
        """A piece; False: the call hears `drained` when it has left."""
        self._share = share
        return self._send(piece if request.version == "1.0" else chunk_of(piece))

    def end_pieces(self, request: Request) -> None:
        """The answer in pieces is complete."""
        self._call = None
        self._answering = Answer(200)
        if self._send(b"" if request.version == "1.0" else LAST_CHUNK):
            self._answered()
        self._advance()

    def _write(self, answer: Answer) -> None:
        self._answering = answer
        close = self._closing or self._front.draining
        self._closing = close
        if self._send(self._head(answer, close=close) + answer.body):
            self._answered()

    def _send(self, data: bytes) -> bool:
        """Write; whether all of it has left at once."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if data:
            transport.write(data)
        left = transport.get_write_buffer_size()
        if not left:
            return True
        self._write_began, self._written = self._front.now(), len(data)
        self._count_unread(left)
        self._until(self._write_began + self._front.limits.write_s)
        return False

    def _answered(self) -> None:
        answer, self._answering = self._answering, None
        if answer is not None and answer.sent is not None:
            answer.sent()
        limits, now = self._front.limits, self._front.now()
        if self._closing or self._left:
            self._close()
        elif self._discarded is not None:
            self._keep_pace()
        elif self._body is None and not self._queue:
            self._until(now + (limits.header_s if self._head_bytes else limits.idle_s))
        if not self._closing:
            self._advance()

    def _close(self) -> None:
        """No more; but a client that still sends has to get the answer first."""
        self._closing = True
        transport = self._transport
        if transport is None:
            return
        if (self._refused or self._discarded is not None) and not self._left:
            self._refused = True
            try:
                transport.write_eof()
            except OSError:  # the client has gone, and it is not known yet
                transport.abort()
                return
            self._resume_reading()
            self._until(self._front.now() + _LINGER_S)
            return
        transport.close()

    # -- time -------------------------------------------------------------------------------------

    def expired(self, now: float) -> None:
        """A deadline is over."""
        transport = self._transport
        if transport is None:
            return
        left = transport.get_write_buffer_size()
        if left:
            limits = self._front.limits
            due = body_due(
                self._write_began, self._written - left, limits.write_s, limits.write_bytes_per_s
            )
            if due > now:
                self._until(due)
            else:
                self.let_go()
            return
        reads = self._request is not None or self._head_bytes
        busy = self._call is not None or self._answering is not None
        if not reads or busy or self._refused or self._discarded is not None:
            self.drop()
            return
        self._front.let_go += 1
        self._drop_body()
        self._closing = self._refused = True
        said = "body" if self._request is not None else "headers"
        self._write(
            problem_of(
                TooSlow(
                    f"the {said} of the request did not come in time",
                    hint="send it faster, or in smaller requests",
                    stored="no",
                )
            )
        )

    def stalls(self, share: Share, now: float) -> bool:
        """An answer of this kind has waited to be read for a while."""
        return self._share is share and now - self._write_began > _STALLED_S

    def let_go(self) -> None:
        """End it, for its client does not read."""
        self._front.let_go += 1
        self._count_unread(0)
        self.drop()

    @property
    def idle(self) -> bool:
        """Nothing is under way here: it can make room."""
        return self._call is None and self._answering is None and self._body is None

    def drop(self) -> None:
        """End it now."""
        if self._transport is not None:
            self._transport.abort()

    def drain(self) -> None:
        """The node stops: end it after what is under way."""
        self._closing = True
        if self.idle and not self._queue and self._request is None:
            self.drop()

    def _until(self, due: float) -> None:
        self._front.wheel.put(self, due)

    def _head(self, answer: Answer, *, close: bool, chunked: bool = False) -> bytes:
        return head_of(answer, close=close, chunked=chunked, date=self._front.date())

    def _pause_reading(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading and self._transport is not None and not self._left:
            self._reading = True
            self._transport.resume_reading()


class _Refuse(Exception):
    """A request beyond the bounds of a head."""


def _head_too_large() -> TooLarge:
    return TooLarge(
        f"the head of a request has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers, or "
        f"more than {MAX_AHEAD_REQUESTS} requests came ahead of their answers",
        hint="send fewer and shorter headers",
        stored="no",
    )


def too_large(most: int) -> TooLarge:
    """413 for a whole body."""
    return TooLarge(
        f"the body is larger than {most} bytes",
        hint="send fewer records, or acks, in one request",
        stored="no",
    )
