"""What the headers of a dead record say: where it came from, and why it is there.

The key, the value and the other headers are as they were sent. Numbers are decimal text; times are
microseconds since 1970 UTC.
"""

from __future__ import annotations

from typing import Final

DEAD_PREFIX: Final = "lakequeue.dead."
"""What all of them begin with; a record that is sent back loses them."""
DEAD_TOPIC: Final = "lakequeue.dead.topic"
"""Name of the topic that the record was in."""
DEAD_TOPIC_ID: Final = "lakequeue.dead.topic_id"
DEAD_PARTITION: Final = "lakequeue.dead.partition"
DEAD_OFFSET: Final = "lakequeue.dead.offset"
DEAD_GROUP: Final = "lakequeue.dead.group"
"""The group in which it died."""
DEAD_ATTEMPTS: Final = "lakequeue.dead.attempts"
"""How often it was delivered."""
DEAD_REASON: Final = "lakequeue.dead.reason"
"""max_attempts, expired, or what a consumer gave."""
DEAD_FIRST_AT: Final = "lakequeue.dead.first_at"
"""When it was delivered first."""
DEAD_LAST_AT: Final = "lakequeue.dead.last_at"
"""When it was delivered last."""


def redrive_id(dlq_topic_id: str, partition: int, offset: int) -> str:
    """Message id of what becomes of one dead record: the same however often it is tried."""
    return f"redrive:{dlq_topic_id}:{partition}:{offset}"
