"""Giving a producer its next epoch.

The epoch is not given by a counter but *taken* in the order of the records: a node reads the newest
one in `log`, and commits a row that is no record and carries the next. The order job takes it if it
is above all before it, in cut order, and refuses it otherwise (two instances that begin at once at
two nodes): then the node tries again above. So when the answer goes out, nothing of an older epoch
can be ordered any more, whatever node it was or will be sent to; and no other state exists than the
marks in `log`.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from ingest.node import IngestNode
from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name
from lakequeue.wire import MAX_WHOLE
from queue_rules.produce.fencing_checks import fenced
from queue_rules.produce.rows import Request, no_record
from queue_tables.schema.marks import NO_TOPIC, producer_mark, sequence_mark
from queue_tables.schema.reasons import Reason
from serving.front.parking import Steps


def epoch_of(node: IngestNode, producer_id: str) -> int:
    """The newest epoch of a producer that is ordered; 0: there was none. Raises `InvalidName`."""
    mark = producer_mark(checked_name(producer_id, "producer"))
    return node.marks.read(mark).get(mark, 0)


def begin_epoch(node: IngestNode, producer_id: str, timeout_ms: int) -> Steps[dict[str, Any]]:
    """Take the next epoch of a producer (`wire.EpochAnswer`).

    Raises `InvalidName`, `OrderTimeout` (ask again), `Overloaded`, `NotReady`, storage errors.
    """
    checked_name(producer_id, "producer")
    deadline = time.monotonic() + timeout_ms / 1_000
    mark = producer_mark(producer_id)
    while True:
        epoch = node.marks.read(mark).get(mark, 0) + 1
        if epoch > MAX_WHOLE:
            raise InvalidRequest(
                f"producer {producer_id} has used up its epochs",
                hint="take another producer_id",
                field="producer_id",
            )
        request = Request(NO_TOPIC, no_record(), producer_id, epoch, request_id=uuid4().hex)
        request.rows.timestamps = [node.now()]
        left = max(0.0, deadline - time.monotonic())
        stamp, outcomes = yield from node.submit([request], request.rows.total_bytes, left)
        if outcomes is not None and outcomes[0].reason != Reason.PRODUCER_FENCED:
            break
        if time.monotonic() >= deadline:
            raise fenced(request, node.marks)
    node.topics.refresh()
    names = {sequence_mark(t.topic_id, producer_id): t.topic for t in node.topics.list()}
    sequences = {
        names[name]: sequence for name, sequence in node.marks.read(*names).items() if name in names
    }
    return {
        "producer_id": producer_id,
        "epoch": epoch,
        "next_sequences": sequences,
        "stamp": stamp,
    }
