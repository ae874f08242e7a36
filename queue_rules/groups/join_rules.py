"""What a member may ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakequeue.errors import InvalidRequest, UnknownTopic
from lakequeue.wire import (
    AckRequest,
    JoinRequest,
)
from lakequeue.wire.declared import declared
from queue_rules.predicates.of_group import predicate_of
from queue_rules.queues.retry_policy import check_retry
from queue_rules.queues.undecodable_policy import check_policy
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
    # Parsed before the group is made of it.
    predicate_of(request.given())
    check_policy(request.mode, request.undecodable)
    if request.mode == "stream":
        for one in declared(JoinRequest):
            if one.setting.of_queues and getattr(request, one.name) is not None:
                raise InvalidRequest(
                    f"{one.name} is for queue groups, and a stream group is joined",
                    hint='join with mode "queue", or leave it out',
                    field=one.name,
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
