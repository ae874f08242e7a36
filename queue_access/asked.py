"""What people write on the command line, as entries. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from lakequeue.errors import InvalidName, InvalidRequest
from queue_access.pages import is_loopback
from queue_access.registry import NODES

RESERVED = frozenset({"everybody", NODES, "cert"})
"""`cert`: an issuer of that name could make names of client certificates."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SUBJECT = re.compile(r"[A-Za-z0-9_-]{1,100}(/(groups/)?[^\s/][^\x00-\x1f\x7f]{0,248})?|\*")
_AGE = re.compile(r"(\d{1,6})([mhd])")
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}


def checked_principal(name: str) -> str:
    """Whom a key is for. Raises `InvalidName`."""
    if _PLAIN.fullmatch(name) is None or name in RESERVED:
        raise InvalidName(
            f"{name!r} cannot be the name of a principal",
            hint="1 to 100 characters of A-Z a-z 0-9 _ -; its producers are <name>.…",
        )
    return name


def checked_subject(name: str) -> str:
    """Whom a grant or a quota is for: a principal, `corp/ada`, `corp/groups/x`, `cert/x`.

    Raises `InvalidName`.
    """
    if _SUBJECT.fullmatch(name) is None or name in RESERVED:
        raise InvalidName(
            f"{name!r} is not a principal, a group or a certificate",
            hint="a principal (ada), one of an issuer (corp/ada), a group of one "
            "(corp/groups/analysts), or a client certificate (cert/prometheus)",
        )
    return name


def checked_jwks_url(url: str) -> str:
    """Where the keys of an issuer are: whoever could change them on the way could make tokens.

    Raises `InvalidRequest`.
    """
    parts = urlsplit(url)
    here = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not (parts.scheme == "https" and parts.hostname) and not here:
        raise InvalidRequest(
            f"the keys of an issuer are fetched by https, not from {url!r}",
            hint="--jwks-url https://…",
            field="jwks_url",
        )
    return url


def age_s(text: str) -> int:
    """`90d`, `12h` or `30m` in seconds. Raises `InvalidRequest`."""
    found = _AGE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise InvalidRequest(f"{text!r} is not an age", hint="90d, 12h or 30m", field="expires")
    return int(found[1]) * _SECONDS[found[2]]
