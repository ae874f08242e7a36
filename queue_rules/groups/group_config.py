"""What a group is: its mode and its options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakequeue.errors import GroupMismatch

OF_TOPICS_TOO = {
    "max_attempts": "--max-attempts {}",
    "backoff_ms": "--backoff {}ms",
    "backoff_max_ms": "--backoff-max {}ms",
    "backoff_jitter_percent": "--backoff-jitter {}",
}
"""Options of a group that a topic may have as well, where they come before the group's: how
`lakequeue topic alter` sets them."""
_ANEW = (
    "another group name, or the same after the group is deleted, gets all records of its topics "
    "from the beginning"
)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What the first member made of a group: kept until the group is deleted."""

    mode: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Queue groups: the options that were given then."""


def check_config(group: str, kept: GroupConfig, asked: GroupConfig) -> None:
    """Raise `GroupMismatch` if the group is not what is asked for. What is not asked is fine."""
    if kept.mode != asked.mode:
        raise GroupMismatch(
            f"group {group!r} is a {kept.mode} group, {asked.mode} was asked for",
            hint=f"ask for {kept.mode}; {_ANEW}",
            field="mode",
        )
    for name, value in asked.options.items():
        if kept.options.get(name) != value:
            known = kept.options.get(name, "the topic's, or the default")
            raise GroupMismatch(
                f"group {group!r} has {name} {known}, {value} was asked for",
                hint=f"leave {name} out{_by_topic(name, value)}; {_ANEW}",
                field=name,
            )


def _by_topic(name: str, value: Any) -> str:
    """How the topic can have the value that the group has not."""
    if name not in OF_TOPICS_TOO or value is None:
        return ""
    option = OF_TOPICS_TOO[name].format(value)
    return f" and say `lakequeue topic alter TOPIC {option}`, which comes before the group's"
