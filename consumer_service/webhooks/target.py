"""Where a webhook may point, and what its answers mean. Pure, but for looking a name up."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakequeue.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook's URL, taken apart."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def host_header(self) -> str:
        """Value of the `Host` header."""
        default = {"http": 80, "https": 443}[self.scheme]
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == default else f"{name}:{self.port}"

    def at(self, address: str) -> str:
        """The URL with an address in place of the name: what was looked up is what is asked."""
        parts = urlsplit(self.url)
        literal = f"[{address}]" if ":" in address else address
        return parts._replace(netloc=f"{literal}:{self.port}").geturl()


def target_of(url: str) -> Target:
    """Check the form of a URL. Raises `InvalidRequest`. Pure."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as e:
        raise _refused(f"{url!r}: {e}") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _refused(f"{url!r} is not an http:// or https:// address")
    if parts.username is not None or parts.password is not None:
        raise _refused("the URL has a user name or password", "requests are signed instead")
    if parts.fragment:
        raise _refused("the URL has a fragment (#…), which is never sent")
    if not url.isprintable():
        raise _refused(f"{url!r} has characters that cannot be sent")
    try:
        # As it is looked up, and as it stands in headers.
        host = parts.hostname.encode("idna").decode()
    except UnicodeError as e:
        raise _refused(f"{parts.hostname} is not the name of a host: {e}") from None
    return Target(url, parts.scheme, host, port or (443 if parts.scheme == "https" else 80))


Lookup = Callable[[str, int], Sequence[str]]
PORTS = frozenset({80, 443, 8080, 8443})
"""Where endpoints of the web listen: other ports are other protocols."""
_PERMISSION = "an operator can allow such: LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE=true"


def looked_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as this machine knows them. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def addresses_of(
    target: Target, *, allow_private: bool, lookup: Lookup = looked_up
) -> Sequence[str]:
    """The addresses of the host. Raises `InvalidRequest` if one is not public.

    All of them have to be: which one is taken is not in our hands.
    """
    if not allow_private and target.port not in PORTS:
        known = ", ".join(map(str, sorted(PORTS)))
        raise _refused(f"port {target.port} is not one of {known}", _PERMISSION)
    try:
        addresses = lookup(target.host, target.port)
    except OSError as e:
        raise _refused(f"{target.host} cannot be looked up: {e}") from e
    if not allow_private:
        for address in addresses:
            if not is_public(address):
                said = f"{target.host} is {address}, which is not a public address"
                raise _refused(said, _PERMISSION)
    return addresses


def _networks(*names: str) -> tuple[Any, ...]:
    return tuple(map(ipaddress.ip_network, names))


_NOT_GLOBAL_4 = _networks(
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
"""IANA's registry of special addresses, those that are not reachable globally, and multicast."""
_OF_CLOUDS = _networks("168.63.129.16/32")
"""Public by the registry; on Azure it is the machine's own host, whoever asks."""
_GLOBAL_6 = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is given out to the public; the rest is special, or not given out yet."""
_NOT_GLOBAL_6 = _networks("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
"""Of it: protocols (Teredo, ORCHID), documentation, 6to4."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, by IANA's registries. Pure.

    Python has such a list too, which differs from one patch release to the next. An address that
    has another one in it is refused, but for NAT64, where the other one counts.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)))
        return ip in _GLOBAL_6 and not any(ip in network for network in _NOT_GLOBAL_6)
    return not any(ip in network for network in (*_NOT_GLOBAL_4, *_OF_CLOUDS))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a record that was posted."""

    done: bool
    reason: str = ""
    delay_s: float | None = None
    """Not done: when to try again; None: as the group's policy says."""


_MAX_RETRY_AFTER_S = 3_600.0


def judge(status: int, retry_after: str | None) -> Verdict:
    """What an answer that came whole means. Pure."""
    if 200 <= status < 300:
        return Verdict(True)
    if 300 <= status < 400:
        return Verdict(False, f"answered {status}: redirects are not followed")
    delay_s = None
    if status in {429, 503} and retry_after is not None and retry_after.strip().isdigit():
        delay_s = min(float(retry_after), _MAX_RETRY_AFTER_S)
    return Verdict(False, f"answered {status}", delay_s)


def _refused(detail: str, hint: str = "give the public address of an endpoint") -> InvalidRequest:
    return InvalidRequest(detail, hint=hint, field="url")
