"""Which requests the console takes at all: by Host, Origin and the address they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from lakequeue.errors import LakequeueError, UnlockedDoors
from queue_access.pages import Pages, is_loopback
from serving.front.hub import Everybody
from serving.front.messages import Request


class ConsoleGate(Everybody):
    """Judges a request when its head is there. Whoever is let in may still have to sign in."""

    def __init__(
        self, names: Iterable[str], scheme: str, locked: Callable[[], bool], *, open_to_all: bool
    ) -> None:
        """`locked`: the services ask for keys. `open_to_all`: the owner wants it so."""
        super().__init__()
        names = [*names]
        self._pages = Pages(names)
        self._pages_when_locked = Pages(names, any_host=True)
        self._scheme, self._locked, self._open_to_all = scheme, locked, open_to_all

    def admit(self, request: Request) -> None:
        """Raises `WrongHost`, `ForeignPage`, `MalformedBody`, `UnlockedDoors`."""
        try:
            self._admit(request)
        except LakequeueError as error:
            error.stored = error.stored or "no"
            self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
            raise

    def _admit(self, request: Request) -> None:
        locked = self._locked()
        host, origin = request.header(b"host"), request.header(b"origin")
        site = request.header(b"sec-fetch-site")
        if origin and self._is_ours(origin, host):
            origin = ""
        opened = request.header(b"sec-fetch-dest") == "document"
        if opened and request.method in {"GET", "HEAD"}:
            # A link that somebody follows, from wherever: it changes nothing, and no frame has it.
            site = ""
        pages = self._pages_when_locked if locked else self._pages
        pages.check(host or None, origin, site, request.version)
        if not locked and not self._open_to_all and not is_loopback(request.address):
            raise UnlockedDoors(
                "the console is for this machine alone while authentication is off",
                hint="switch it on (`lakequeue auth init`), or look from this machine",
                stored="no",
            )

    def _is_ours(self, origin: str, host: str) -> bool:
        parts = urlsplit(origin)
        return parts.scheme == self._scheme and parts.netloc.lower() == host.lower()
