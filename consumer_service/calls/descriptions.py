"""Groups and partitions as they are shown."""

from __future__ import annotations

from typing import Any

from consumer_service.ownership.owned_partition import OwnedPartition
from queue_rules.groups.group_config import GroupConfig
from queue_tables.groups.backlog import open_by_stage
from queue_tables.groups.facts import GroupState


def shown(config: GroupConfig | None) -> dict[str, Any] | None:
    if config is None or not (config.options or config.mode == "queue"):
        return None
    return dict(config.options)


def open_counts(state: GroupState, owned: OwnedPartition | None) -> dict[str, Any]:
    """What a queue group's partition has open, as the tables say."""
    counts: dict[str, Any] = dict(open_by_stage(state))
    if owned is not None and owned.queue is not None:
        with owned.lock:
            counts["held_back"] = owned.queue.held_back
            refused = owned.refused_letters.oldest
        if refused is not None:
            counts |= {"dying_because": refused.why, "dying_since": refused.since}
    return counts
