"""The nodes of a service as a client knows them: given, found, and which of them to ask first.

Rules only; time comes in. Nodes are given as URLs, and the services tell of those there are
(`GET /v1/nodes`). Which one a call goes to is chosen by rendezvous hashing of what it is about, so
that all clients agree without asking each other, and a node that comes or goes moves only what is
its own. A node that did not serve us is skipped for a while, which doubles each time.
"""

from __future__ import annotations

import hashlib
import ipaddress
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from lakequeue.calling.effects import Now
from lakequeue.errors import InvalidRequest

FIND_EVERY_S = 10.0
"""How often a client asks which nodes there are."""
FIND_SOON_S = 2.0
"""The same after a node did not serve."""
FIRST_DOWN_S = 1.0
LONGEST_DOWN_S = 300.0


def rendezvous(nodes: Iterable[str], key: str) -> list[str]:
    """`nodes` in the order in which they are asked about `key`. Pure.

    Highest random weight: of n nodes each is first for about 1/n of all keys. When one is taken
    away, the keys it was first for spread over the others and no other key moves; when one is
    added, it takes about 1/(n + 1) of the keys, and no key moves between the others.
    """

    def weight(node: str) -> tuple[bytes, str]:
        return hashlib.blake2b(f"{key}\n{node}".encode(), digest_size=8).digest(), node

    return sorted(set(nodes), key=weight, reverse=True)


def may_be_used(found: str, asked: str) -> bool:
    """Whether a client that reaches `asked` may go to the URL `found` that it was told of. Pure.

    A remote client ignores loopback addresses. A client that uses https never changes to http.
    """
    there, here = urlsplit(found), urlsplit(asked)
    if there.scheme not in {"http", "https"} or (here.scheme, there.scheme) == ("https", "http"):
        return False
    return _is_loopback(here.hostname) or not _is_loopback(there.hostname)


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


class Choice(Protocol):
    """Where a call goes, and where it goes next."""

    def __len__(self) -> int:
        """How many nodes there are to go to."""

    @property
    def current(self) -> str:
        """Where the next call goes."""

    def leave(self, url: str) -> None:
        """`url` did not serve us: go elsewhere next."""

    def served(self, url: str) -> None:
        """`url` has answered."""


class Nodes:
    """The nodes of one service, and the one that answered last. Thread-safe.

    `finds`: ask them which nodes there are; False: there are only those that are given.
    """

    def __init__(
        self, urls: str | Sequence[str], *, finds: bool = False, now: Now = time.monotonic
    ) -> None:
        given = urls.split(",") if isinstance(urls, str) else list(urls)
        self.urls = [u.strip().rstrip("/") for u in given if u.strip()]
        bad = [u for u in self.urls if urlsplit(u).scheme not in {"http", "https"}]
        if bad or not self.urls:
            raise InvalidRequest(
                f"{bad[0]!r} is not a URL" if bad else "no URL is given",
                hint="give one or more, such as http://127.0.0.1:8080",
                field="urls",
            )
        self._given = list(self.urls)
        self._found: list[str] = []
        self._at = 0
        self._down: dict[str, tuple[float, float]] = {}
        """URL → (skipped until, for how long the next time)."""
        self._now = now
        self._lock = threading.Lock()
        self._find_at = now() if finds else float("inf")
        self._finds = finds

    def __len__(self) -> int:
        return len(self.urls)

    @property
    def current(self) -> str:
        """Where the next call goes that is about nothing in particular."""
        return self.urls[self._at % len(self.urls)]

    @property
    def candidates(self) -> list[str]:
        """Among which `Route` chooses: those found, or as long as none is, those given."""
        return self._found or self._given

    def prefer(self, url: str) -> None:
        """Go to `url` next, whether it was given or is new."""
        with self._lock:
            if url not in self.urls:
                self.urls.append(url)
            self._at = self.urls.index(url)

    def leave(self, url: str) -> None:
        """`url` did not serve us: go to the next one, unless somebody has moved on already."""
        with self._lock:
            if url == self.current:
                self._at += 1
            now = self._now()
            until, wait = self._down.get(url, (0.0, FIRST_DOWN_S))
            # Several calls may be under way when it falls: they count once.
            if until <= now:
                self._down[url] = (now + wait, min(wait * 2, LONGEST_DOWN_S))
            self._find_at = min(self._find_at, now + FIND_SOON_S) if self._finds else float("inf")

    def served(self, url: str) -> None:
        """`url` has answered: it is not skipped any more."""
        if url in self._down:
            with self._lock:
                self._down.pop(url, None)

    def down_until(self, url: str) -> float:
        """Until when it is skipped; 0 if it is not."""
        until, _ = self._down.get(url, (0.0, 0.0))
        return until if until > self._now() else 0.0

    @property
    def find_in(self) -> float:
        """Seconds until it is time to ask which nodes there are."""
        return max(0.0, self._find_at - self._now())

    def find_now(self) -> bool:
        """Whether it is time to ask which nodes there are; True to one caller each time."""
        now = self._now()
        with self._lock:
            due = now >= self._find_at
            if due:
                self._find_at = now + FIND_EVERY_S
            return due

    def found(self, urls: Iterable[str], asked: str) -> None:
        """`asked` says that these are all there are. Those that were given stay, as a last way."""
        usable = sorted({url.rstrip("/") for url in urls if may_be_used(url, asked)})
        with self._lock:
            here = self.current
            self._found = usable
            self.urls = [*usable, *(url for url in self._given if url not in usable)]
            self._at = self.urls.index(here) if here in self.urls else 0
            self._down = {u: d for u, d in self._down.items() if u in self.urls}

    def route(self, key: str) -> Route:
        """The way for calls about `key`."""
        return Route(self, key)


class Route:
    """Where calls about one key go: to the first node in its rendezvous order that serves."""

    def __init__(self, nodes: Nodes, key: str) -> None:
        self.nodes = nodes
        self._key = key
        self._preferred: str | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def urls(self) -> list[str]:
        """All nodes that are known."""
        return self.nodes.urls

    @property
    def order(self) -> list[str]:
        """Every node, first those that serve; of those skipped, whoever may be tried first."""
        nodes = self.nodes
        candidates = nodes.candidates
        ranked = rendezvous(candidates, self._key)
        ranked += [url for url in nodes.urls if url not in candidates]
        return sorted(ranked, key=nodes.down_until)

    @property
    def current(self) -> str:
        """Where the next call goes."""
        preferred = self._preferred
        if preferred is not None and not self.nodes.down_until(preferred):
            return preferred
        return self.order[0]

    def prefer(self, url: str) -> None:
        """Go to `url` until it does not serve, whatever the order says."""
        self._preferred = url

    def leave(self, url: str) -> None:
        """`url` did not serve us: go to the next one."""
        self.nodes.leave(url)
        if url == self._preferred:
            self._preferred = None

    def served(self, url: str) -> None:
        """`url` has answered."""
        self.nodes.served(url)
