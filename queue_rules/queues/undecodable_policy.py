"""What a group does with a record that cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from lakequeue.errors import InvalidRequest

POLICIES: Final[Mapping[str, tuple[str, ...]]] = {
    "stream": ("tombstone", "skip", "stop"),
    "queue": ("dead_letter", "tombstone", "skip"),
}
"""Mode of a group → what it may choose; its default comes first."""


def check_policy(mode: str, given: str | None) -> None:
    """Raise `InvalidRequest` for a policy that groups of this mode do not have."""
    if given is not None and given not in POLICIES[mode]:
        raise InvalidRequest(
            f"undecodable {given!r} is not for {mode} groups",
            hint=f"one of {', '.join(POLICIES[mode])}",
            field="undecodable",
        )


def policy_of(options: Mapping[str, Any], mode: str) -> str:
    """The policy in the options of a group; one of a later release is its default."""
    given = options.get("undecodable")
    return given if given in POLICIES[mode] else POLICIES[mode][0]


@lru_cache(1_000)
def policy_in(options: str, mode: str) -> str:
    """The same, of options as JSON."""
    return policy_of(orjson.loads(options or "{}"), mode)
