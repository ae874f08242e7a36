"""The gate of a service: pages, credentials, rights and quotas, asked with the head of a request.

Everything here runs in the event loop's thread. What blocks (the table, the issuers) is done by
others, who replace what is asked here.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from lakequeue.errors import (
    Forbidden,
    ForeignPage,
    LakequeueError,
    MalformedBody,
    OverQuota,
    Unauthenticated,
    UnlockedDoors,
    WrongHost,
)
from lakequeue.settings import AccessSettings
from queue_access.audit_line import Line, Nowhere, Sink
from queue_access.calls import CALLS, Calls, Service
from queue_access.doors import ANYBODY, Caller, Doors
from queue_access.pages import Pages, check_content_type, is_loopback
from queue_access.quotas import Meters, over
from queue_access.registry import NODES, Registry
from serving.front.hub import REFUSALS
from serving.front.messages import Request, Seat

_WANTED = frozenset(
    {
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"authorization",
        b"content-type",
        b"content-length",
        b"transfer-encoding",
    }
)
_NOT_SAID = b"not said"
_SENT, _READ, _ACKS = "bytes", "bytes read", "bytes of acks"
"""What is used up apart: who has read too much may send."""
_MOST_SETTLING = 4_096
_AUDITED = (Unauthenticated, Forbidden, ForeignPage, WrongHost)


class ServiceGate:
    """See the module, and `serving.front.hub.Gate`."""

    def __init__(
        self,
        service: Service,
        settings: AccessSettings,
        names: Iterable[str],
        audit: Sink | None = None,
        wall_s: Callable[[], float] = time.time,
        host: str = "127.0.0.1",
    ) -> None:
        """`names`: those by which this node is reached; `host`: the address it listens on."""
        self._must_be_locked = not (is_loopback(host) or settings.let_anybody_read_write_and_delete)
        self._shut = False
        """Others reach this node, and authentication has been switched off."""
        self._names = [*names, *settings.hosts]
        self._origins = settings.origins
        self._audit = audit or Nowhere()
        self._doors = Doors(Calls(CALLS[service]), wall_s)
        self._meters = Meters()
        self.refusals: dict[str, int] = dict.fromkeys(REFUSALS, 0)
        """Code of the error → how often."""
        self._pages = Pages(self._names, self._origins)
        self._settling: set[tuple[str, str]] = set()
        """(principal, group) of sends that said what the group has consumed."""

    @property
    def doors(self) -> Doors:
        """Who decides."""
        return self._doors

    def replace(self, registry: Registry) -> None:
        """What counts from now on. Thread-safe."""
        self._doors.registry = registry
        self._shut = self._must_be_locked and not registry.locked
        # A page that gets in by a name of its own has no credentials to come in with.
        self._pages = Pages(self._names, self._origins, any_host=registry.locked)

    def admit(self, request: Request) -> None:
        """See `Gate`."""
        said: dict[bytes, bytes] = {}
        try:
            for name, value in request.headers:
                if name in _WANTED:
                    if name in said:
                        raise _twice(name)
                    said[name] = value
            self._admit(request, said.get)
        except LakequeueError as error:
            error.stored = error.stored or "no"
            self._refused(request, error)
            raise

    def _admit(self, request: Request, said: Callable[[bytes, bytes], bytes]) -> None:
        host = said(b"host", _NOT_SAID)
        self._pages.check(
            None if host is _NOT_SAID else host.decode("latin-1"),
            said(b"origin", b"").decode("latin-1"),
            said(b"sec-fetch-site", b"").decode("latin-1"),
            request.version,
        )
        if request.method != "GET":
            check_content_type(
                request.method,
                said(b"content-length", b"").decode("latin-1"),
                said(b"transfer-encoding", b"").decode("latin-1"),
                said(b"content-type", b"").decode("latin-1"),
            )
        doors, method, path = self._doors, request.method, request.path
        if self._shut and path.rstrip("/") != "/healthz":
            raise _shut()
        call, name = request.call, request.about = doors.find(method, path)
        # Put down before it is judged: a refusal is in the audit with who was refused.
        shown = said(b"authorization", b"").decode("latin-1")
        caller = request.caller = doors.who(call, shown, request.certificate)
        doors.judge(caller, call, name, method, path)
        if caller is not ANYBODY:
            self._use(caller, request)

    def _use(self, caller: Caller, request: Request) -> None:
        quota = self._doors.registry.quota_of(caller.principal)
        meter = self._meters.of(caller.principal)
        now = self._doors.wall_s()
        meter.take("requests", quota.requests_per_s, 1, now)
        call = request.call
        if call is None or not call.keeps:
            name = _READ if call is not None and call.reads else _SENT
            meter.take(name, quota.bytes_per_s, 0, now)
        seat = request.seat
        if seat.principal != caller.principal:
            most = quota.connections
            if most is not None and meter.connections >= most:
                raise over(f"{meter.connections} connections are open at this node, {most} may be")
            self.left(seat)
            seat.principal = caller.principal
            meter.connections += 1

    def begins(self, request: Request) -> None:
        """See `Gate`: the body counts when it is there."""
        if request.caller is not ANYBODY and request.body:
            rate = self._doors.registry.quota_of(request.caller.principal).bytes_per_s
            # Acks are held up by acks alone: they must not become a way to send without a limit.
            keeps = request.call is not None and request.call.keeps
            self._take(request.caller, _ACKS if keeps else _SENT, rate, len(request.body))

    def reads(self, request: Request, size: int) -> None:
        """See `Gate`: they are paid off before the next call that reads."""
        if request.caller is not ANYBODY:
            rate = self._doors.registry.quota_of(request.caller.principal).bytes_per_s
            self._owe(request.caller, _READ, rate, size)

    def owes_s(self, request: Request) -> float:
        """See `Gate`."""
        if request.caller is ANYBODY:
            return 0.0
        rate = self._doors.registry.quota_of(request.caller.principal).bytes_per_s
        meter = None if rate is None else self._meters.known(request.caller.principal)
        return 0.0 if meter is None else meter.owed_s(_READ, rate, self._doors.wall_s())

    def sends(self, caller: Caller, records: int, unpacked: int) -> None:
        """So many records are sent, and so many bytes more than came: a body may come packed.

        Raises `OverQuota`. For the event loop's thread.
        """
        if caller is not ANYBODY:
            quota = self._doors.registry.quota_of(caller.principal)
            self._take(caller, "records", quota.records_per_s, records)
            if unpacked > 0:
                self._owe(caller, _SENT, quota.bytes_per_s, unpacked)

    def settles(self, request: Request, group: str) -> None:
        """A send says what a group has consumed. The first of each caller is in the audit.

        It needs no member, so nothing else tells who began to move that group.
        """
        about = request.caller.principal, group
        if about in self._settling:
            return
        if len(self._settling) >= _MOST_SETTLING:
            self._settling.clear()
        self._settling.add(about)
        self._audit.soon(self._line(request, "done", group, None, "began to consume by sending"))

    def redrives(
        self, request: Request, dead_letters: str
    ) -> Callable[[Mapping[str, int], LakequeueError | None], None]:
        """What the audit is told of a send that sends dead letters back, when it has ended.

        Whoever redrives by a client of its own makes no call that says so. Those of one second to
        one topic are one row, whose count is that of the records. For the event loop's thread; what
        it returns is for any.
        """
        line = self._line(request, "done", dead_letters, None, "")
        if request.caller.principal == NODES:
            # It acts for somebody, whose own call is in the audit with all of this.
            return lambda _sent, _error: None

        def tell(sent: Mapping[str, int], error: LakequeueError | None) -> None:
            for topic, count in sent.items():
                said = "kept behind the others" if topic == dead_letters else f"redriven to {topic}"
                one = replace(line, detail=said)
                if error is not None:
                    said = f"{error.code}, {said}"
                    one = replace(line, outcome="failed", status=error.http_status, detail=said)
                self._audit.soon(one, count)

        return tell

    def _owe(self, caller: Caller, name: str, rate: float | None, amount: int) -> None:
        if rate is not None:
            self._meters.of(caller.principal).owe(name, rate, amount, self._doors.wall_s())

    def _take(self, caller: Caller, name: str, rate: float | None, amount: int) -> None:
        if rate is None:
            return
        try:
            self._meters.of(caller.principal).take(name, rate, amount, self._doors.wall_s())
        except OverQuota as error:
            self.refusals[error.code] += 1
            raise

    def still(self, request: Request) -> LakequeueError | None:
        """See `Gate`."""
        error = self._doors.still(request.caller, request.call, request.about, request.also)
        if error is not None:
            self._refused(request, error)
        return error

    def forbade(self, request: Request) -> None:
        """See `Gate`. A change is in the audit already, with its outcome."""
        if request.call is None or not request.call.changes:
            asked = Forbidden("for what stands in its body", hint="the answer says what is missing")
            self._refused(request, asked)

    def left(self, seat: Seat) -> None:
        """See `Gate`."""
        if seat.principal is not None:
            meter = self._meters.of(seat.principal)
            meter.connections = max(0, meter.connections - 1)
            seat.principal = None

    def _refused(self, request: Request, error: LakequeueError) -> None:
        if error.code in self.refusals:
            self.refusals[error.code] += 1
        if not isinstance(error, _AUDITED):
            return
        _, name = self._doors.find(request.method, request.path)
        self._audit.refused(self._line(request, "refused", name, error.http_status, error.code))

    def _line(
        self, request: Request, outcome: str, name: str, status: int | None, detail: str
    ) -> Line:
        known, _ = self._doors.find(request.method, request.path)
        caller = request.caller
        named = caller is not ANYBODY
        return Line(
            principal=caller.principal if named else "",
            call="no call" if known is None else f"{known.method} {known.path}",
            outcome=outcome,
            name=name[:249],
            how=caller.how if named else "",
            address=request.address,
            status=status,
            detail=detail,
        )


def _shut() -> UnlockedDoors:
    """A node would not start so; one that runs must not become what would not start."""
    return UnlockedDoors(
        "authentication was switched off, and others reach this address: nobody is let in",
        hint="`lakequeue auth init` switches it on; or start the node on 127.0.0.1, or with "
        "access.let_anybody_read_write_and_delete = true",
        stored="no",
    )


def _twice(name: bytes) -> MalformedBody:
    """One of two could be judged, and the other meant: by a proxy in front, say."""
    said = f"the header {name.decode('latin-1')} stands there twice"
    return MalformedBody(said, hint="send one", stored="no")


def names_of(url: str, host: str) -> list[str]:
    """Names by which a node is reached that listens on `host` and says that it is at `url`."""
    return [urlsplit(url).hostname or "", host, socket.gethostname()]
