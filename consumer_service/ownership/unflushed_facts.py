"""What the tables have not heard yet of a partition that is about to be let go."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

import structlog

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.takeover import fact_of
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from queue_rules.queues.record_facts import record_facts
from queue_tables.groups.facts import Kind

log = structlog.get_logger()


def flush_facts(owned: OwnedPartition, journal: Journal) -> None:
    """Commit it; `owned.settle` waits for that.

    An attempt: without it the next owner has records rest until their deadlines, which is as
    safe, and later.
    """
    with owned.lock:
        lost = owned.void or owned.superseded_by or not owned.trusted()
        if owned.queue is None or not owned.unflushed or lost:
            return
        moves, owned.unflushed = owned.unflushed, []
        base = fact_of(Kind.TAKEN, owned, owned.generation, None, wall_micros())
        try:
            _, future = journal.submit(record_facts(base, moves))
        except LakequeueError as e:
            log.info(
                "facts.flush_failed",
                group=owned.key.group,
                partition=owned.key.partition,
                error=str(e),
            )
            return
        owned.pending += 1
    future.add_done_callback(partial(_flushed, owned))


def _flushed(owned: OwnedPartition, _future: Future[object]) -> None:
    with owned.settled:
        owned.pending -= 1
        owned.settled.notify_all()
