"""The MD5 sums by which SDKs check that nothing was changed on the way. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5

from sqs_gateway.rules.message_attributes import Attribute


def of_body(body: str) -> str:
    """MD5 of a body."""
    return md5(body.encode(), usedforsecurity=False).hexdigest()


def of_attributes(attributes: Mapping[str, Attribute]) -> str | None:
    """MD5 of message attributes: by name, each as length-prefixed name, type and value."""
    if not attributes:
        return None
    digest = md5(usedforsecurity=False)
    for name in sorted(attributes):
        one = attributes[name]
        value = one.value if isinstance(one.value, bytes) else one.value.encode()
        kind = b"\x02" if isinstance(one.value, bytes) else b"\x01"
        for part in (name.encode(), one.type.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        digest.update(kind + len(value).to_bytes(4, "big") + value)
    return digest.hexdigest()
