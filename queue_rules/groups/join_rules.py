"""What a member may ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakequeue.errors import InvalidRequest, UnknownTopic
from lakequeue.wire import (
    AckRequest,
    JoinRequest,
)
from queue_rules.predicates.of_group import predicate_of
from queue_rules.queues.retry_policy import check_retry
from queue_tables.schema.topic_rules import Topic


def is_of_queue_group(request: AckRequest) -> bool:
    """Whether its receipts are those of a queue group. Pure."""
    receipts = [*request.acks, *(n.receipt for n in request.nacks)]
    receipts += [e.receipt for e in request.extend]
    return any(receipt.startswith("q.") for receipt in receipts)


def check_options(
    request: JoinRequest, topics: Sequence[Topic], others: Mapping[str, Topic]
) -> None:
    """Raise `InvalidRequest` for options that do not go together. Pure."""
    given = request.given()
    # Parsed before the group is made of it.
    predicate_of(given)
    given.pop("predicate", None)
    if request.mode == "stream":
        also = {} if request.max_in_flight is None else {"max_in_flight": request.max_in_flight}
        if given | also:
            name = next(iter(given | also))
            raise InvalidRequest(
                f"{name} is for queue groups, and a stream group is joined",
                hint='join with mode "queue", or leave it out',
                field=name,
            )
        return
    check_retry(request, topics, others)


def check_some_exist(names: Sequence[str], topics: Iterable[Topic]) -> None:
    """Raise `UnknownTopic` if all topics of these names were deleted."""
    if {topic.topic for topic in topics}.isdisjoint(names):
        raise UnknownTopic(
            f"deleted: {', '.join(names)}; there is nothing to wait for",
            hint="create the topic again and join, or leave the group",
        )
