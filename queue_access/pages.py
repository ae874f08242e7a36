"""What keeps web pages out of a node that listens on this machine. Pure.

A page of any site can have a browser send requests to 127.0.0.1, and with a name that it makes
stand for 127.0.0.1 it can read the answers (DNS rebinding). Browsers say for which name and from
which page a request is; programs that are no browsers lose nothing by these checks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from lakequeue.errors import ForeignPage, MalformedBody, UnsupportedMediaType, WrongHost

_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})
_FROM_ELSEWHERE = frozenset({"cross-site", "same-site"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


def is_loopback(host: str) -> bool:
    """Whether an address or name can mean this machine alone."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_literal(name: str) -> bool:
    """Whether it is an address, or this machine: what no page can make stand for another one."""
    if name in _LOOPBACK_NAMES:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def host_of(netloc: str) -> str:
    """The name in a `Host` header, in small letters and without the port; "" if it has no form."""
    try:
        parts = urlsplit(f"//{netloc}")
        if parts.username is not None or parts.path:
            return ""
        return (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


class Pages:
    """The rule of one node."""

    def __init__(
        self, names: Iterable[str] = (), origins: Iterable[str] = (), *, any_host: bool = False
    ) -> None:
        """`names`: those of this node; `any_host`: it is known by names that are not told here."""
        self._names = frozenset(name.lower().strip("[]") for name in names)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._any_host = any_host
        self._known: set[str] = set()
        """Values of `Host` that were found good: parsing each again would cost as much as all."""

    def check(self, host: str | None, origin: str, site: str, version: str) -> None:
        """Raise `WrongHost`, `ForeignPage`, `MalformedBody` (no Host).

        `site`: `Sec-Fetch-Site`. It tells of requests that carry no `Origin`: images, links.
        """
        if host not in self._known:
            self._check_host(host, version)
        if origin and origin.lower() not in self._origins:
            raise ForeignPage(
                f"a page of {origin[:100]!r} asked",
                hint="pages of other origins may not, unless `access.origins` lists them",
                stored="no",
            )
        if not origin and site in _FROM_ELSEWHERE:
            raise ForeignPage(
                "a page of another site asked",
                hint="open the address itself, or use a client that is not a browser",
                stored="no",
            )

    def _check_host(self, host: str | None, version: str) -> None:
        if host is None:
            if version == "1.0":
                return
            raise MalformedBody("the header Host is missing", hint="send it", stored="no")
        name = host_of(host)
        if not name or not (self._any_host or name in self._names or is_literal(name)):
            raise WrongHost(
                f"{host[:100]!r} is not a name of this node",
                hint="ask for an address that /v1/nodes names; `access.hosts` lists further names",
                stored="no",
            )
        if len(self._known) < 1_000:
            self._known.add(host)


def check_content_type(method: str, length: str, coding: str, content_type: str) -> None:
    """Raise `UnsupportedMediaType` for a body that does not say what it is.

    Pages can send such a body, or a form, without asking first; JSON they cannot.
    """
    if method in _WITH_BODY and not content_type and (coding or length not in {"", "0"}):
        raise UnsupportedMediaType(
            "the body has no Content-Type",
            hint="say what it is, for example -H 'Content-Type: application/json'",
            stored="no",
        )
