"""What the gateway keeps of a queue, beside its topic: in the topic's `annotations`. Pure.

It is JSON with a part of its own, `sqs`. What others keep beside it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from sqs_gateway.rules.errors import OVER_LIMIT, UNSUPPORTED, SqsError

MOST_TAGS: Final = 50
_PART: Final = "sqs"
_MOST_CHARS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Kept:
    """What somebody has said of a queue by SQS."""

    attributes: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    created_s: int = 0
    modified_s: int = 0


def kept_in(annotations: str | None) -> Kept:
    """Read it; whatever stands there, nothing is raised."""
    part = _whole(annotations).get(_PART)
    if not isinstance(part, dict):
        return Kept()
    return Kept(
        _texts(part.get("attributes")),
        _texts(part.get("tags")),
        _number(part.get("created_s")),
        _number(part.get("modified_s")),
    )


def with_kept(annotations: str | None, kept: Kept) -> str:
    """The annotations with this in them. Raises `SqsError`."""
    if annotations is not None and not _whole(annotations):
        raise SqsError(
            UNSUPPORTED,
            "The annotations of the topic are no JSON object: nothing can be kept there.",
        )
    part = {
        "attributes": dict(kept.attributes),
        "tags": dict(kept.tags),
        "created_s": kept.created_s,
        "modified_s": kept.modified_s,
    }
    text = orjson.dumps(_whole(annotations) | {_PART: part}).decode()
    if len(text) > _MOST_CHARS:
        raise SqsError(OVER_LIMIT, f"Attributes and tags take more than {_MOST_CHARS} characters.")
    return text


def with_tags(kept: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Tags with more of them. Raises `SqsError`."""
    tags = {**kept, **more}
    if len(tags) > MOST_TAGS:
        raise SqsError(OVER_LIMIT, f"Too many tags: {len(tags)}, at most {MOST_TAGS} may be.")
    return tags


def _whole(annotations: str | None) -> dict[str, Any]:
    try:
        found = orjson.loads(annotations or "{}")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _texts(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        return {}
    return {name: value for name, value in given.items() if isinstance(value, str)}


def _number(given: Any) -> int:
    return given if isinstance(given, int) else 0
