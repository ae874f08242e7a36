"""One connection: requests are read whole against deadlines and budgets, answers are written.

Everything here runs in the event loop's thread and waits for nothing.
"""

from __future__ import annotations

import asyncio
from typing import cast

from lakequeue.errors import TooSlow
from serving.front.call import Call
from serving.front.hub import Hub
from serving.front.limits.deadlines import NEVER
from serving.front.limits.refusals import head_too_large
from serving.front.limits.shares import Share
from serving.front.messages import LAST_CHUNK, Answer, Request, chunk_of, problem_of
from serving.front.reading import NoRequest, Reading
from serving.front.routes import Routes
from serving.front.writing import Writing
from serving.tls import certificate_of

MAX_AHEAD_BYTES = 8 << 10
"""What a client may send before it has the answer to what it sent before; the system keeps the rest
until then. A node has thousands of clients that wait: no budget counts this."""
_LINGER_S = 2.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.BufferedProtocol):
    """See the module. `due` and `slot` belong to the wheel of deadlines."""

    __slots__ = (
        "_ahead", "_answering", "_call", "_closing", "_hub", "_left", "_paused", "_reading",
        "_refusal", "_refused", "_routes", "_silent", "_transport", "_writing", "address", "due",
        "made", "opened_at", "slot",
    )  # fmt: skip

    _transport: asyncio.Transport
    _reading: Reading
    _writing: Writing

    def __init__(self, hub: Hub, routes: Routes) -> None:
        self._hub = hub
        self._routes = routes
        self.address = ""
        self.due = NEVER
        self.slot: int | None = None
        self.opened_at = 0.0
        self.made = False
        """Requests may come: with TLS, its handshake is over."""
        self._call: Call | None = None
        """Who answers the request that was read last but is not answered yet."""
        self._answering: Answer | None = None
        self._ahead: bytearray | None = None
        self._closing = False
        """Nothing more is served here after the answer that is under way."""
        self._refusal: Answer | None = None
        """What it is told, if there are too many connections."""
        self._refused = False
        """No request is read at all: too many connections."""
        self._paused = False
        self._left = False
        """The client has closed its end, or is gone."""
        self._silent = True
        """Nothing has come yet."""

    # -- the transport ----------------------------------------------------------------------------

    def came(self, transport: asyncio.BaseTransport) -> None:
        """A client has come; with TLS, its handshake is still to come."""
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._transport = cast(asyncio.Transport, transport)
        self._reading = Reading(self._hub, self._routes, self.address)
        self.opened_at = self._hub.now()
        self._refusal = self._hub.opened(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Requests may come."""
        hub = self._hub
        if not self.opened_at:
            self.came(transport)
        self.made = True
        self._transport = cast(asyncio.Transport, transport)
        self._reading.certificate = certificate_of(transport.get_extra_info("peercert"))
        self._writing = Writing(hub, self, self._transport)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            self._refused = True
            self._transport.write(self._writing.head(refusal, close=True) + refusal.body)
            self._until(hub.now() + _LINGER_S)
            return
        self._until(hub.now() + hub.limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, whoever ended it."""
        self._left = True
        self._writing.count(0)
        self._hub.wheel.drop(self)
        self.due = NEVER
        self._hub.closed(self)
        self._reading.close()
        call, self._call = self._call, None
        answer, self._answering = self._answering, None
        if answer is not None:
            self._hub.lost(answer, self._writing.share)
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

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where bytes may be put: one place for all connections, as it is read at once."""
        if self._call is None or self._reading.in_body:
            return self._hub.incoming
        return self._hub.incoming[:MAX_AHEAD_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        self.data_received(bytes(self._hub.incoming[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._refused:
            return
        if self._call is not None and not self._reading.in_body:
            if self._ahead is None:
                self._ahead = bytearray()
            self._ahead += data
            if len(self._ahead) >= MAX_AHEAD_BYTES:
                self._pause_reading()
            return
        self._feed(data)

    def pause_writing(self) -> None:
        """Something is left to write: `Writing.send` has noticed."""

    def resume_writing(self) -> None:
        """Everything that was given to the transport has left."""
        if self._writing.more():
            return
        if self._answering is not None and self._call is None:
            self._answered()
        elif self._call is not None:
            self._until(NEVER)
            self._call.drained()

    # -- reading ----------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        reading = self._reading
        discarded = reading.discards
        self._silent = False
        if reading.between and not reading.head_bytes:
            self._until(self._hub.now() + self._hub.limits.header_s)
        try:
            reading.feed(data)
        except NoRequest as refused:
            self._refuse(refused.answer)
            return
        self._closing |= reading.is_last
        if reading.wants_continue:
            reading.wants_continue = False
            self._transport.write(_CONTINUE)
        # While an answer is written its own deadline stands.
        if reading.in_body and self._answering is None:
            self._until(reading.due())
        if reading.exhausted:
            self._closing = self._refused = True
            if self._answering is None:
                self._until(self._hub.now())
        elif discarded and not reading.discards and self._call is None and self._answering is None:
            # Its answer was written long ago.
            self._until_more()
        self._advance()

    def _refuse(self, answer: Answer) -> None:
        """Nothing that comes after this can be told apart. What came before it unanswered is not
        done: `answer` says that nothing is stored.
        """
        self._closing = self._refused = True
        if self._call is None and self._answering is None:
            self._write(answer)

    # -- answering --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin with the next request that is whole, if nothing is under way."""
        reading = self._reading
        while self._call is None and self._answering is None and not self._left:
            if not reading.asked:
                if self._ahead is None or self._refused:
                    break
                data, self._ahead = bytes(self._ahead), None
                self._resume_reading()
                self._feed(data)
                continue
            asked = reading.asked.popleft()
            self._closing |= not asked.request.keep_alive or self._hub.draining
            if asked.refusal is not None or asked.route is None:
                self._write(_as_asked(asked.refusal or head_too_large(), asked.request))
                continue
            if not reading.in_body:
                self._until(NEVER)
            self._call = call = Call(self._hub, self, asked.request, asked.route, asked.lease)
            call.begin()

    def answer(self, answer: Answer, request: Request, share: Share) -> None:
        """Write the answer of the call under way; it is over with this."""
        self._call = None
        self._writing.share = share
        self._write(_as_asked(answer, request))

    def begin_pieces(self, answer: Answer, request: Request) -> None:
        """The head of an answer in pieces; the call goes on."""
        chunked = request.version != "1.0"
        self._closing |= not chunked
        self._writing.send(self._writing.head(answer, close=self._closing, chunked=chunked))

    def piece(self, piece: bytes, request: Request, share: Share) -> bool:
        """A piece; False: the call hears `drained` when it has left."""
        self._writing.share = share
        return self._writing.send(piece if request.version == "1.0" else chunk_of(piece))

    def end_pieces(self, request: Request) -> None:
        """The answer in pieces is complete."""
        self._call = None
        self._answering = Answer(200)
        if self._writing.send(b"" if request.version == "1.0" else LAST_CHUNK):
            self._answered()

    def _write(self, answer: Answer) -> None:
        self._answering = answer
        self._closing |= self._hub.draining
        writing = self._writing
        head = writing.head(answer, close=self._closing)
        # It must not be kept here beside what the transport keeps of it.
        body, answer.body = answer.body, b""
        if writing.send(head, body):
            self._answered()

    def _answered(self) -> None:
        answer, self._answering = self._answering, None
        if answer is not None and answer.sent is not None:
            answer.sent()
        if self._closing or self._left:
            self._close()
        else:
            self._until_more()
        if not self._closing:
            self._advance()

    def _until_more(self) -> None:
        """Nothing is under way: until when something has to come."""
        limits, reading = self._hub.limits, self._reading
        if reading.discards:
            self._until(reading.due())
        elif not reading.takes_body and not reading.asked:
            wait_s = limits.header_s if reading.head_bytes else limits.idle_s
            self._until(self._hub.now() + wait_s)

    def _close(self) -> None:
        """No more; but a client that still sends has to get the answer first."""
        self._closing = True
        # What was asked behind the last answer has none, so it must not be done either.
        self._reading.drop_asked()
        self._ahead = None
        transport = self._transport
        if (self._refused or self._reading.discards) and not self._left:
            self._refused = True
            try:
                if transport.can_write_eof():  # TLS cannot
                    transport.write_eof()
            except OSError:  # the client has gone, and it is not known yet
                transport.abort()
                return
            self._resume_reading()
            self._until(self._hub.now() + _LINGER_S)
            return
        transport.close()

    # -- time -------------------------------------------------------------------------------------

    def expired(self, now: float) -> None:
        """A deadline is over."""
        due = self._writing.due()
        if due is not None:
            if due > now:
                self._until(due)
            else:
                self.let_go()
            return
        reading = self._reading
        busy = self._call is not None or self._answering is not None
        if not reading.under_way and not busy and not self._refused:
            self._hub.late["headers" if self._silent else "idle"] += 1
        if not reading.under_way or busy or self._refused or reading.discards:
            self.drop()
            return
        said = "body" if reading.in_body else "headers"
        self._hub.late[said] += 1
        reading.forget()
        self._closing = self._refused = True
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
        return self._writing.stalls(share, now)

    def let_go(self) -> None:
        """End it, for its client does not read."""
        self._hub.late["answer"] += 1
        self._writing.count(0)
        self.drop()

    @property
    def idle(self) -> bool:
        """Nothing is under way here: it can make room."""
        return self._call is None and self._answering is None and not self._reading.takes_body

    @property
    def ahead(self) -> int:
        """Bytes that are kept until the answer under way is written."""
        return 0 if self._ahead is None else len(self._ahead)

    def drop(self) -> None:
        """End it now."""
        self._transport.abort()

    def drain(self) -> None:
        """The node stops: end it after what is under way."""
        self._closing = True
        if self.idle and not self._reading.asked and self._reading.between:
            self.drop()

    def _until(self, due: float) -> None:
        self._hub.wheel.put(self, due)

    def _pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._paused and not self._left:
            self._paused = False
            self._transport.resume_reading()


def _as_asked(answer: Answer, request: Request) -> Answer:
    """The answer to a HEAD has no body: it would be taken for the next answer."""
    if request.method == "HEAD" and answer.body:
        answer.headers = [*answer.headers, ("Content-Length", str(len(answer.body)))]
        answer.body = b""
    return answer
