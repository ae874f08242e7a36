"""What the tables have not heard yet of a partition that is about to be let go."""

from __future__ import annotations

import structlog

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from queue_rules.queues.attempts import returned_moves

log = structlog.get_logger()


def flush_facts(owned: OwnedPartition, journal: Journal) -> None:
    """Commit it; `owned.settle` waits for that.

    An attempt: without it the next owner has records rest until their deadlines, which is as
    safe, and later.
    """
    with Settlement(journal, [owned]) as settlement:
        lost = owned.void or owned.superseded_by or not owned.trusted()
        if owned.queue is None or lost:
            return
        # Who takes it over has to know that these attempts do not count. It is said once: each look
        # comes here, and waits for what was said.
        moves = owned.unflushed + returned_moves(owned.queue.news_of_unopened(), wall_micros())
        owned.unflushed = []
        if not moves:
            return
        try:
            settlement.submit_moves(owned, moves)
        except LakequeueError as e:
            log.info(
                "facts.flush_failed",
                group=owned.key.group,
                partition=owned.key.partition,
                error=str(e),
            )
