"""Groups and partitions as they are shown."""

from __future__ import annotations

from typing import Any

from consumer_service.ownership.held import Held
from queue_rules.groups.group_config import GroupConfig
from queue_tables.groups.backlog import open_by_stage
from queue_tables.groups.facts import GroupState


def shown(config: GroupConfig | None) -> dict[str, Any] | None:
    if config is None or not (config.options or config.mode == "queue"):
        return None
    return dict(config.options)


def open_counts(state: GroupState, held: Held | None) -> dict[str, Any]:
    """What a queue group's partition has open, as the tables say."""
    counts: dict[str, Any] = dict(open_by_stage(state))
    if held is not None and held.queue is not None:
        with held.lock:
            counts["held_back"] = held.queue.held_back
            refused = held.refused_letters.oldest
        if refused is not None:
            counts |= {"dying_because": refused.why, "dying_since": refused.since}
    return counts
