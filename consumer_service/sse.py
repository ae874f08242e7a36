"""Records as server-sent events: what polls deliver, as one endless answer.

Each record is an event `record` whose id is its receipt. A client that reconnects sends the last
one it got as `Last-Event-ID`: delivery goes on behind it in its partition, and in the others
behind what is acked, so that what was lost with the connection comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import orjson

from consumer_service.groups import Groups
from consumer_service.members import Member
from consumer_service.node import Node
from consumer_service.queues.batches import QueueDelivered
from consumer_service.streams.delivery import Delivered
from lakequeue.wire import parse_receipt

if TYPE_CHECKING:
    from consumer_service.metrics import Metrics

BATCH = 500
KEEP_ALIVE_S = 10.0
"""Silence is broken by a comment, so that proxies and clients see that the stream lives."""


def event_stream(
    node: Node,
    groups: Groups,
    member: Member,
    last: str | None,
    gone: Callable[[], bool],
    metrics: Metrics,
) -> Iterator[bytes]:
    """The body of the answer; ends when the client hangs up or the member goes."""
    if last and member.request.mode == "stream":
        resume_behind(node, member, last)
    yield b"retry: 1000\n\n"
    while member.active and not gone():
        delivered: Delivered | QueueDelivered
        if member.request.mode == "queue":
            delivered = node.queue_delivery.poll(member, BATCH, KEEP_ALIVE_S, gone)
        else:
            delivered = node.delivery.poll(member, BATCH, KEEP_ALIVE_S, gone)
        if gone():
            delivered.take_back()
            return
        if not delivered.records:
            yield b": alive\n\n"
            continue
        once = member.request.delivery == "at_most_once"
        if once and isinstance(delivered, Delivered):
            groups.commit_delivered(member, delivered)
        metrics.delivered(member.group, len(delivered.records))
        yield b"".join(
            b"id: %b\nevent: record\ndata: %b\n\n"
            % (record["receipt"].encode(), orjson.dumps(record))
            for record in delivered.records
        )
    yield b"event: end\ndata: {}\n\n"


def resume_behind(node: Node, member: Member, last: str) -> None:
    """Take back what was delivered after `last`. Raises `InvalidRequest` for a damaged receipt."""
    topic_id, partition, offset, epoch, _ = parse_receipt(last)
    for held in node.holdings.of_member(member.group, member.member_id):
        with held.fetching, held.lock:
            same = (held.key.topic_id, held.key.partition, held.epoch)
            known = same == (topic_id, partition, epoch)
            held.cursor.rewind(offset + 1 if known else held.cursor.accepted)
            held.rows = None
