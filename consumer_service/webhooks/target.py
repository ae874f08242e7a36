"""Where a webhook may point, and what its answers mean. Pure, but for looking a name up."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
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
        raise _refused(f"{url!r} is no http:// or https:// address")
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
        raise _refused(f"{parts.hostname} is no name of a host: {e}") from None
    return Target(url, parts.scheme, host, port or (443 if parts.scheme == "https" else 80))


def addresses_of(target: Target, *, allow_private: bool) -> list[str]:
    """The addresses of the host. Raises `InvalidRequest` if one is not public.

    All of them have to be: which one is taken is not in our hands.
    """
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as e:
        raise _refused(f"{target.host} cannot be looked up: {e}") from e
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not allow_private:
        for address in addresses:
            if not is_public(address):
                raise _refused(
                    f"{target.host} is {address}, which is not a public address",
                    "an operator can allow such: LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE=true",
                )
    return addresses


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_NEVER = tuple(
    map(ipaddress.ip_network, ("2002::/16", "2001::/23", "64:ff9b:1::/48", "192.0.0.0/24"))
)
"""6to4 and Teredo, which are given up, and addresses for local protocols: Python's own list of what
is global has some of them in one patch release and not in the next."""


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet; so must be one that it wraps. Pure."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if not ip.is_global or ip.is_multicast or any(ip in network for network in _NEVER):
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return True
    inner = [ip.ipv4_mapped]
    if ip in _NAT64 or ip in _COMPATIBLE:
        inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF))
    return not ip.is_site_local and all(v4.is_global for v4 in inner if v4 is not None)


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
