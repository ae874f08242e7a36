"""What a request says of positions, and how a superseded one is refused. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakequeue.errors import (
    EpochSuperseded,
    InvalidRequest,
)
from lakequeue.records import Partition, TopicId
from lakequeue.wire import AckAnswer, AckRequest, RefusedAck, parse_receipt
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key


@dataclass(slots=True)
class CommitRequest:
    """What a request says about one partition."""

    topic: str
    epoch: int | None
    offsets: list[int]
    position: int | None = None


def commit_requests_of(
    group: str, request: AckRequest, ids: Mapping[str, str]
) -> dict[Key, list[CommitRequest]]:
    """Sort receipts and positions by partition and epoch. Pure.

    `ids` maps names of topics to topic ids. Raises `InvalidRequest` for a damaged receipt, an
    unknown topic, and what only queue groups have.
    """
    if request.nacks or request.extend:
        raise InvalidRequest(
            "nacks and extend are for queue groups, and this is a stream group",
            hint="in a stream group, seek or leave without acking to read records again",
            field="nacks" if request.nacks else "extend",
        )
    names = {topic_id: name for name, topic_id in ids.items()}
    receipts: dict[tuple[Key, int], list[int]] = defaultdict(list)
    for receipt in request.acks:
        topic_id, partition, offset, epoch, _ = parse_receipt(receipt)
        key = Key(group, TopicId(topic_id), Partition(partition))
        receipts[key, epoch].append(offset)
    wanted: dict[Key, list[CommitRequest]] = defaultdict(list)
    for (key, epoch), offsets in receipts.items():
        wanted[key].append(CommitRequest(names.get(key.topic_id, ""), epoch, offsets))
    for position in request.commit:
        topic_id = ids.get(position.topic, "")
        if not topic_id:
            raise InvalidRequest(
                f"topic {position.topic!r} is not consumed by this member",
                hint="commit topics that the member subscribes to",
                field="commit",
            )
        key = Key(group, TopicId(topic_id), Partition(position.partition))
        wanted[key].append(CommitRequest(position.topic, position.epoch, [], position.offset))
    return wanted


class Owner(NamedTuple):
    """Who has a partition."""

    topic: str
    member: str
    epoch: int
    accepts: bool = True
    """Acks are still taken: it is not being let go."""


def refused_by(
    owner: Owner | None, member: str, key: Key, parts: Sequence[CommitRequest]
) -> list[RefusedAck]:
    """Those of `parts` that `member` cannot say of this partition, or not under their epoch."""
    mine = owner is not None and owner.member == member and owner.accepts
    stale = [p for p in parts if owner is None or not mine or p.epoch not in {None, owner.epoch}]
    return [refusal_of(owner, key, part) for part in stale]


def refusal_of(owner: Owner | None, key: Key, part: CommitRequest) -> RefusedAck:
    """The answer to a position that does not count."""
    return RefusedAck(
        topic=part.topic if owner is None else owner.topic,
        partition=key.partition,
        epoch=part.epoch or 0,
        current_epoch=None if owner is None else owner.epoch or None,
    )


def judge(cursor: Cursor, parts: list[CommitRequest], end: int, *, through: bool) -> int:
    position = cursor.accepted
    for part in parts:
        if part.offsets:
            position = cursor.ack(part.offsets, through=through)
        if part.position is not None:
            position = cursor.commit_to(part.position, end)
    return position


def superseded(answer: AckAnswer) -> EpochSuperseded:
    first = answer.refused[0]
    current = "another" if first.current_epoch is None else str(first.current_epoch)
    where = f"partition {first.partition} of {first.topic or 'its topic'}"
    return EpochSuperseded(
        # A position without an epoch is one that goes by who owns the partition.
        f"{where}: epoch {first.epoch} presented, {current} current"
        if first.epoch
        else f"{where} is not this member's now",
        hint="drop what was delivered from it; its new owner gets it again",
        stored="no",
        committed=[c.model_dump() for c in answer.committed],
        refused=[r.model_dump() for r in answer.refused],
    )
