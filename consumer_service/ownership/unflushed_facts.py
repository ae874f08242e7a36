"""What the tables have not heard yet of a partition that is about to be let go."""

from __future__ import annotations

import structlog

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from lakequeue.errors import LakequeueError

log = structlog.get_logger()


def flush_facts(owned: OwnedPartition, journal: Journal) -> None:
    """Commit it; `owned.settle` waits for that.

    An attempt: without it the next owner has records rest until their deadlines, which is as
    safe, and later.
    """
    with Settlement(journal, [owned]) as settlement:
        lost = owned.void or owned.superseded_by or not owned.trusted()
        if owned.queue is None or not owned.unflushed or lost:
            return
        moves, owned.unflushed = owned.unflushed, []
        try:
            settlement.submit_moves(owned, moves)
        except LakequeueError as e:
            log.info(
                "facts.flush_failed",
                group=owned.key.group,
                partition=owned.key.partition,
                error=str(e),
            )
