"""Queue groups: what a predicate does not take is settled without having been delivered.

So is what is not there: gaps of the log, which another engine has made. The fact is *acked*, with
no attempt and no member, of as many offsets at once as there are: so who takes the partition over,
the fold and retention need to know nothing of predicates and gaps. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from queue_rules.queues.attempts import Attempt, Move, NewRecord, Taken
from queue_rules.queues.partition import QueuePartition
from queue_tables.groups.facts import Kind


def skip(queue: QueuePartition, offset: int) -> list[Move]:
    """Nothing from the scan position to `offset` is the group's: go on there."""
    if offset <= queue.scan:
        return []
    moves = [
        Move(Kind.ACKED, first, end=end) for first, end in queue.seen.missing(queue.scan, offset)
    ]
    queue.seen.add(queue.scan, offset)
    queue.scan = offset
    return moves


def fetch_matching(
    queue: QueuePartition,
    now: int,
    member: str,
    most: int,
    records: Iterable[NewRecord],
    following: int,
) -> Taken:
    """As `QueuePartition.take_new`: `records` are all that match from `scan` to `following`.

    Stops before the first that is not taken.
    """
    taken = Taken()
    for record in records:
        taken.moves += skip(queue, record.offset)
        if len(taken.deliver) >= most or queue.held_back is not None:
            return taken
        one = queue.take_new(now, member, 1, [record])
        taken.deliver += one.deliver
        taken.moves += one.moves
    taken.moves += skip(queue, following)
    return taken


def settle_gone(queue: QueuePartition, taken: Taken, gone: Sequence[Attempt]) -> None:
    """The records of these attempts, just taken, are not in the log any more: nobody gets them."""
    for one in gone:
        begun = queue.begin(one.offset, one.attempt, 0)
        if isinstance(begun, Attempt):
            queue.finish_ack(begun)
    offsets = {one.offset for one in gone}
    taken.deliver = [one for one in taken.deliver if one.offset not in offsets]
    taken.moves = [
        Move(Kind.ACKED, move.offset, move.attempt) if move.offset in offsets else move
        for move in taken.moves
    ]
