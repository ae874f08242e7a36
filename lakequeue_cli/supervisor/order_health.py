"""What the doctor says of ordering: what was put aside, and which shards wait for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lakequeue.clock import Micros, wall_micros

_DAY_US = 86_400_000_000


class Said(NamedTuple):
    """One line: whether it is a warning, the sentence, the remedy."""

    warns: bool
    detail: str
    fix: str = ""


def look_at_order(root_uri: str) -> Iterator[Said]:
    """Read the tables of a queue, and say what they tell. Raises storage errors."""
    from jobs.measuring.stuck_shards import stuck_shards
    from queue_tables.log.rejected import RejectFilter, counts
    from queue_tables.root import QueueRoot
    from queue_tables.schema.reasons import Fate, with_fate

    root = QueueRoot.existing(root_uri)
    since = Micros(wall_micros() - _DAY_US)
    yield put_aside(counts(root, RejectFilter(reasons=with_fate(Fate.PUT_ASIDE), since=since)))
    yield from (waits(shard, why) for shard, why in sorted(stuck_shards(root).items()))


def put_aside(counts: Mapping[tuple[str | None, str], int]) -> Said:
    """Of the records that could not be ordered within a day, by topic and reason. Pure."""
    if not counts:
        return Said(False, "every record of the last day could be ordered")
    reasons: Counter[str] = Counter()
    for (_, reason), count in counts.items():
        reasons[reason] += count
    topics = sorted({topic or "an unknown topic" for topic, _ in counts})
    said = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    detail = (
        f"{sum(reasons.values())} records of {', '.join(topics[:5])} could not be ordered within "
        f"the last day and are kept in rejects ({said})"
    )
    return Said(True, detail, "lakequeue rejects list --since 24h")


def waits(shard: str, why: str) -> Said:
    """Of a shard that waits. Pure."""
    return Said(
        True,
        f"inbox/{shard} waits: {why}; all other shards go on",
        "restore the file from a backup; or, to give its records up, put an empty file there",
    )
