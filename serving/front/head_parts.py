"""What stands in the head of a request, beyond what the parser tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import httptools

from serving.front.messages import Header

_OFFERS = frozenset({b"upgrade", b"http2-settings"})


def parts_of(target: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The target without its host, its path, its query; None: it is no target."""
    if target.startswith(b"/"):
        path, _, query = target.partition(b"?")
        return target, path, query.partition(b"#")[0]
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserError:
        return None
    path, query = url.path or b"/", url.query or b""
    return path + (b"?" + query if query else b""), path, query


def unknown_codings(headers: Iterable[Header]) -> bytes:
    """Transfer codings other than chunks alone; b"": there are none."""
    given = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    return b", ".join(value for value in given if value != b"chunked")


def without_upgrade(method: bytes, target: bytes, version: str, headers: list[Header]) -> bytes:
    """The head, as of a request that offers no other protocol: we have none."""
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode("ascii"))]
    lines += [b"%b: %b" % header for header in _without_offers(headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _without_offers(headers: list[Header]) -> Iterator[Header]:
    for name, value in headers:
        if name == b"connection":
            # What else it says stands: the connection may be the last of its client.
            said = [word for word in value.split(b",") if word.strip().lower() not in _OFFERS]
            if said:
                yield name, b",".join(said).strip()
        elif name not in _OFFERS:
            yield name, value
