"""Where a group starts on a partition that it has no position on. Pure.

"latest" is meant for a group that is new to a topic: it starts at the end of the partitions that
were there when it joined. A partition that is added later starts at earliest, always, or records
would be lost between its birth and the first look at it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakequeue.records import TopicId
from queue_tables.groups.facts import Key


def latest_below(
    from_: str, partitions: Mapping[TopicId, int], known: Collection[Key]
) -> dict[TopicId, int]:
    """For each topic of a joining member: partitions below this number may start at latest.

    `partitions` is the topics' present number of partitions, `known` the group's states.
    """
    if from_ != "latest":
        return dict.fromkeys(partitions, 0)
    seen = {key.topic_id for key in known}
    return {t: 0 if t in seen else count for t, count in partitions.items()}
