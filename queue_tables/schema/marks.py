"""Marks: the `txn`s of the queue's tables. Their names are built and read here, and nowhere else.

A mark moves with the commit that makes it true. The marks that guard every table are in
`queue_tables/delta/guard.py`.

| table | app id | version |
|---|---|---|
| `log` | `order` | epoch and counter of the order leader's newest commit |
| `log` | `inbox/<shard>` | last stamp ordered of a shard: its watermark |
| `log` | `offset/<topic_id>/<partition>` | next offset of a partition |
| `log` | `producer/<producer_id>` | newest epoch of a fenceable producer |
| `log` | `sequence/<topic_id>/<producer_id>` | its next sequence in that topic |
| `log` | `consumed/<group>/<topic_id>/<partition>` | next offset that the group's transforms consume; after a seek with `/<generation>` behind it, so that a seek begins anew |
| `log` | `generation/<group>/<topic_id>/<partition>` | newest generation that transforms were taken of, none for 0: older ones are over |
| `rejects` | `order`, `plan/<shard>` | as in `log`; where the cut of the newest batch ends |
| `topics` | `topics` | rises with each commit |
| shards | `group`, `stamp`, `fence` | group commits; the newest stamp; commits of others, that fence |
| shards of Spark writers | `batch` | newest batch of the writer that is in the shard |
| `group_offsets` | `offsets` | (epoch << 40), counter of its newest commit |
| `group_offsets` | `folded/<shard>` | last stamp folded of a shard |
| `metrics`, `group_history` | `metrics`, `history` | newest hour that is in it, as hours since 1970 |
| of a replica | `mirror/<queue_id>`, `mirroring/<queue_id>` | the source's version that is here; the one that is on its way |
"""  # noqa: E501 -- rows of a table

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from lakequeue.records import Offset, Partition, ShardName, Stamp, TopicId, TopicPartition
from queue_tables.delta import stamps

ORDER_TXN: Final = "order"
TOPICS_TXN: Final = "topics"
GROUP_TXN: Final = "group"
STAMP_TXN: Final = stamps.STAMP_TXN
FENCE_TXN: Final = "fence"
BATCH_TXN: Final = "batch"
OFFSETS_TXN: Final = "offsets"
METRICS_TXN: Final = "metrics"
HISTORY_TXN: Final = "history"
BACKUP_TXN: Final = "backup"

_OFFSET = "offset/"
_OF_GROUPS = ("consumed/", "generation/")
_AIM = "mirroring/"
NO_TOPIC = ""
"""`topic_id` of an inbox row that is no record: it carries the marks of a request without any."""


class ShardMarks:
    """Marks with one stamp a shard."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def name(self, shard: str) -> str:
        """The mark of a shard."""
        return self._prefix + shard

    def has(self, name: str) -> bool:
        """Whether it is one of these."""
        return name.startswith(self._prefix)

    def read(self, txns: Mapping[str, int]) -> dict[ShardName, Stamp]:
        """The stamp of each shard, in the txns of the table."""
        return {
            ShardName(name.removeprefix(self._prefix)): Stamp(stamp)
            for name, stamp in txns.items()
            if self.has(name)
        }


WATERMARKS: Final = ShardMarks("inbox/")
"""In `log`: how far each shard is ordered."""
PLANS: Final = ShardMarks("plan/")
"""In `rejects`: how far the newest batch goes."""
FOLDED: Final = ShardMarks("folded/")
"""In `group_offsets`: how far each shard of the journal is folded."""


def offset_mark(topic_id: str, partition: int) -> str:
    """Name of the `txn` that holds the next offset of a partition."""
    return f"{_OFFSET}{topic_id}/{partition}"


def is_next_offset(name: str) -> bool:
    """Whether a `txn` of `log` is the next offset of a partition."""
    return name.startswith(_OFFSET)


def next_offsets_in(txns: Mapping[str, int]) -> dict[TopicPartition, Offset]:
    """The next offset of each partition that has any, in the txns of `log`."""
    found: dict[TopicPartition, Offset] = {}
    for name, offset in txns.items():
        if is_next_offset(name):
            topic_id, _, partition = name.removeprefix(_OFFSET).rpartition("/")
            found[TopicPartition(TopicId(topic_id), Partition(int(partition)))] = Offset(offset)
    return found


def has_next_offset(txns: Mapping[str, int], topic_id: str) -> bool:
    """Whether anything of a topic was ever ordered, by the txns of `log`."""
    return any(name.startswith(f"{_OFFSET}{topic_id}/") for name in txns)


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


def mirror_mark(source_id: str) -> str:
    """Name of the mark of a replica that holds how far it goes."""
    return f"mirror/{source_id}"


def mirror_aim(source_id: str) -> str:
    """Name of the mark of a replica that holds what it is on its way to."""
    return f"{_AIM}{source_id}"


def mirror_aims_in(txns: Mapping[str, int]) -> dict[str, int]:
    """What a replica is on its way to, by the id of the source."""
    return {n.removeprefix(_AIM): cut for n, cut in txns.items() if n.startswith(_AIM)}


class ReadsMarks(Protocol):
    """Where marks are read: `queue_tables.log.marks.LogMarks`."""

    def read(self, *names: str) -> Mapping[str, int]:
        """The marks of these names as of now, and maybe others; of none, every mark."""
        ...
