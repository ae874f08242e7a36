"""Which records of a batch go through which node.

A partition's records pass one node, so that its order needs no clocks of others. The node decides
which partition a key has, for it knows how many there are now; what is reckoned here by an older
number chooses the node alone. A record without a key gets its partition here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pydantic import ValidationError

from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.discovery import find
from lakequeue.calling.effects import Now, Request, Script
from lakequeue.calling.nodes import Nodes
from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.client.producing.produce_responses import Place, Produced
from lakequeue.client.producing.produce_responses import partition_of as told_partition
from lakequeue.client.producing.producer_batch import ProducerBatch
from lakequeue.errors import LakequeueError
from lakequeue.partitioner import PARTITIONERS, StickyRoundRobin, partition_of
from lakequeue.wire import Partitioner, TopicDescription

_log = logging.getLogger("lakequeue.producer")
_READ_S = 5.0
KNOWN_FOR_S = 60.0
"""How long a topic's number of partitions is believed without asking again."""


@dataclass(slots=True)
class Shape:
    """What routing has to know of a topic."""

    partitions: int
    partitioner: Partitioner
    until: float
    """When to ask again."""
    sticky: StickyRoundRobin = field(default_factory=StickyRoundRobin)

    def learn(self, told: TopicDescription, now: float) -> None:
        """The topic may have grown."""
        self.partitions, self.partitioner = told.partitions, told.partitioner
        self.until = now + KNOWN_FOR_S

    def place(self, record: Outgoing) -> int:
        """The partition of a record, as far as a client can know; it is chosen if it has to be."""
        if record.partition is not None:
            return record.partition
        if record.key_data is not None:
            return partition_of(record.key_data, self.partitions, self.partitioner)
        if record.chosen is None:
            record.chosen = self.sticky.take(record.size, self.partitions)
        return record.chosen


def shape_of(told: TopicDescription, now: float) -> Shape | None:
    """What to route by; None for a partitioner of a newer release."""
    if told.partitioner not in PARTITIONERS:
        return None
    return Shape(told.partitions, told.partitioner, now + KNOWN_FOR_S)


def parts_of(batch: ProducerBatch, shape: Shape, nodes: Nodes) -> list[ProducerBatch]:
    """`batch`, cut by the node that each partition's records go to; the order within stays.

    Each part names what to route by if its node fails on the way: its first partition.
    """
    first: dict[int, str] = {}
    parts: dict[str, ProducerBatch] = {}
    for record in batch.records:
        partition = shape.place(record)
        key = f"{batch.topic}/{partition}"
        if partition not in first:
            first[partition] = nodes.route(key).current
        node = first[partition]
        if node not in parts:
            parts[node] = batch.part([])
            parts[node].route = key
        parts[node].records.append(record)
    return list(parts.values())


def moved(batch: ProducerBatch, produced: Produced, shape: Shape) -> bool:
    """Whether the answer puts a key elsewhere than was reckoned: the topic has changed."""
    return any(
        record.partition is None
        and record.key is not None
        and _is_its_own(got)
        and shape.place(record) != told_partition(got)
        for record, got in zip(batch.records, produced.places, strict=True)
    )


def _is_its_own(place: Place) -> bool:
    """Neither that of a record that was there before, nor that of a dead letter."""
    return type(place) is int or not (place.duplicate or place.dead_letter_topic)  # type: ignore[union-attr]


class Routing:
    """What a producer knows of nodes and topics, and how it learns it."""

    def __init__(self, nodes: Nodes, now: Now) -> None:
        self._nodes = nodes
        self._now = now
        self._shapes: dict[str, Shape] = {}

    def parts(self, batch: ProducerBatch, *, whole: bool = False) -> Script[list[ProducerBatch]]:
        """What of `batch` goes to which node; the `whole` of it where there is only one."""
        yield from find(self._nodes, "ingest", self._now)
        if whole or len(self._nodes.candidates) == 1:
            return [batch]
        shape = yield from self._shape(batch.topic)
        return [batch] if shape is None else parts_of(batch, shape, self._nodes)

    def compare(self, batch: ProducerBatch, produced: Produced) -> None:
        """Learn from an answer that a topic has changed."""
        shape = self._shapes.get(batch.topic)
        if shape is not None and moved(batch, produced, shape):
            shape.until = self._now()

    def choose_no_more(self, batch: ProducerBatch) -> None:
        """A partition chosen for these records does not exist: the node may choose."""
        self._shapes.pop(batch.topic, None)
        for record in batch.records:
            record.chosen = None

    def _shape(self, topic: str) -> Script[Shape | None]:
        """What is known of the topic, asked for if it is not; None if nobody says."""
        known = self._shapes.get(topic)
        if known is not None and self._now() < known.until:
            return known
        request = Request("GET", f"/v1/topics/{topic}", read_timeout_s=_READ_S)
        try:
            answer = yield from call(self._nodes.route(topic), request, self._now, CallPolicy(0.0))
            told = TopicDescription.model_validate_json(answer.reply.body)
        except (LakequeueError, ValidationError) as error:
            # Whatever is wrong, the records themselves will tell: a topic that is gone, say.
            _log.debug("topic %s is not described: %s", topic, error)
            return known
        if known is None:
            known = shape_of(told, self._now())
            if known is not None:
                self._shapes[topic] = known
        else:
            known.learn(told, self._now())
        return known
