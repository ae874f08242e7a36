"""What the tables have not heard yet of a partition that is about to be let go."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

import structlog

from consumer_service.ownership.held import Held
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.takeover import fact_of
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from queue_rules.queues.record_facts import record_facts
from queue_tables.groups.facts import Kind

log = structlog.get_logger()


def say_owed(held: Held, journal: Journal) -> None:
    """Commit it; `held.settle` waits for that.

    An attempt: without it the next owner has records rest until their deadlines, which is as
    safe, and later.
    """
    with held.lock:
        lost = held.void or held.superseded_by or not held.trusted()
        if held.queue is None or not held.owed or lost:
            return
        moves, held.owed = held.owed, []
        base = fact_of(Kind.TAKEN, held, held.generation, None, wall_micros())
        try:
            _, future = journal.submit(record_facts(base, moves))
        except LakequeueError as e:
            log.info(
                "owed.unsaid", group=held.key.group, partition=held.key.partition, error=str(e)
            )
            return
        held.pending += 1
    future.add_done_callback(partial(_said, held))


def _said(held: Held, _future: Future[object]) -> None:
    with held.settled:
        held.pending -= 1
        held.settled.notify_all()
