"""What a group is: its mode and its options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakequeue.errors import GroupMismatch


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
            hint="use another group name, or delete the group first",
            field="mode",
        )
    for name, value in asked.options.items():
        if kept.options.get(name) != value:
            known = kept.options.get(name, "the topic's, or the default")
            raise GroupMismatch(
                f"group {group!r} has {name} {known}, {value} was asked for",
                hint=f"leave {name} out, use another group name, or delete the group first",
                field=name,
            )
