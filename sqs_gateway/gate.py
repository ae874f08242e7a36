"""Which requests a gateway takes at all: by the name they ask for, and where they come from."""

from __future__ import annotations

from collections.abc import Iterable

from lakequeue.errors import LakequeueError, UnlockedDoors
from queue_access.pages import Pages, is_loopback
from serving.front.hub import Everybody
from serving.front.messages import Request


class SqsGate(Everybody):
    """Judges a request when its head is there."""

    def __init__(self, names: Iterable[str], *, locked: bool, open_to_all: bool) -> None:
        """`locked`: clients sign with keys. `open_to_all`: the owner wants it so."""
        super().__init__()
        self._pages = Pages(names, any_host=locked)
        self._only_here = not locked and not open_to_all

    def admit(self, request: Request) -> None:
        """Raises `WrongHost`, `ForeignPage`, `MalformedBody`, `UnlockedDoors`."""
        try:
            host = request.header(b"host")
            site = request.header(b"sec-fetch-site")
            self._pages.check(host or None, request.header(b"origin"), site, request.version)
            if self._only_here and not is_loopback(request.address):
                raise UnlockedDoors(
                    "without keys the gateway is for this machine alone",
                    hint="ask from this machine",
                )
        except LakequeueError as error:
            error.stored = error.stored or "no"
            self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
            raise
