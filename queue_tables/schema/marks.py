"""Marks: the `txn`s of `log` that say how far a producer and a consume-transform-produce have come.

Written by the order leader with the rows that move them, read by whoever needs to know. Watermarks
of shards (`inbox/…`) and next offsets (`offset/…`) stand beside them.

| app id | version |
|---|---|
| `producer/<producer_id>` | newest epoch of a fenceable producer |
| `sequence/<topic_id>/<producer_id>` | its next sequence in that topic |
| `consumed/<group>/<topic_id>/<partition>` | next offset that the group's transforms consume; after a seek with `/<generation>` behind it, so that a seek begins anew |
| `generation/<group>/<topic_id>/<partition>` | newest generation that transforms were taken of, none for 0: older ones are over |
"""  # noqa: E501 -- a row of a table

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakequeue.records import ShardName, Stamp

_INBOX = "inbox/"
_OFFSET = "offset/"
_OF_GROUPS = ("consumed/", "generation/")
NO_TOPIC = ""
"""`topic_id` of an inbox row that is no record: it carries the marks of a request without any."""


def offset_mark(topic_id: str, partition: int) -> str:
    """Name of the `txn` that holds the next offset of a partition."""
    return f"{_OFFSET}{topic_id}/{partition}"


def is_next_offset(name: str) -> bool:
    """Whether a `txn` of `log` is the next offset of a partition."""
    return name.startswith(_OFFSET)


def next_offsets_in(txns: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """The next offset of each (topic_id, partition) that has any, in the txns of `log`."""
    found: dict[tuple[str, int], int] = {}
    for name, offset in txns.items():
        if is_next_offset(name):
            topic_id, _, partition = name.removeprefix(_OFFSET).rpartition("/")
            found[topic_id, int(partition)] = offset
    return found


def producer_mark(producer_id: str) -> str:
    """Name of the mark that holds the newest epoch of a producer."""
    return f"producer/{producer_id}"


def sequence_mark(topic_id: str, producer_id: str) -> str:
    """Name of the mark that holds the next sequence of a producer in a topic."""
    return f"sequence/{topic_id}/{producer_id}"


def consumed_mark(group: str, topic_id: str, partition: int, generation: int) -> str:
    """Name of the mark that holds the next offset to transform."""
    name = f"consumed/{group}/{topic_id}/{partition}"
    return f"{name}/{generation}" if generation else name


def generation_mark(group: str, topic_id: str, partition: int) -> str:
    """Name of the mark that holds the newest generation of which a transform was taken."""
    return f"generation/{group}/{topic_id}/{partition}"


def is_of_a_group(name: str) -> bool:
    """Whether a `txn` of `log` says how far the transforms of a group are."""
    return name.startswith(_OF_GROUPS)


def inbox_mark(shard: str) -> str:
    """Name of the mark that holds the last stamp ordered of a shard."""
    return f"{_INBOX}{shard}"


def is_of_a_shard(name: str) -> bool:
    """Whether a `txn` of `log` is the watermark of an inbox shard."""
    return name.startswith(_INBOX)


def watermarks_in(txns: Mapping[str, int]) -> dict[ShardName, Stamp]:
    """The last stamp ordered of each shard, in the txns of `log`."""
    return {
        ShardName(app_id[len(_INBOX) :]): Stamp(version)
        for app_id, version in txns.items()
        if app_id.startswith(_INBOX)
    }


class ReadsMarks(Protocol):
    """Where marks are read: `queue_tables.log.marks.LogMarks`."""

    def read(self, *names: str) -> Mapping[str, int]:
        """The marks of these names as of now, and maybe others; of none, every mark."""
        ...
