"""What a request says of receipts, and how one that is not good is refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from lakequeue.errors import (
    AttemptSuperseded,
    InvalidRequest,
    Rejected,
    UnknownGroup,
    UnknownTopic,
)
from lakequeue.wire import (
    AckRequest,
    QueueReceipt,
    RefusedReceipt,
    RefusedWhy,
    SettleAnswer,
    parse_queue_receipt,
)
from queue_rules.queues.attempts import Refusal


class ReceiptAction(NamedTuple):
    """What a request says about one receipt."""

    text: str
    receipt: QueueReceipt
    does: Literal["ack", "nack", "extend"]
    ms: int | None = None
    """Delay of a nack (None: by the policy); visibility of an extension."""
    reason: str = ""
    """Of a nack: why, in the words of who gives it back."""
    may_shorten: bool = False
    """Of an extension: the deadline may move back."""
    late: bool = False
    """Of an ack: it counts also after the deadline, if no other attempt has followed."""
    unopened: bool = False
    """Of a nack: nobody has looked at the record, so the attempt does not count."""


def receipt_actions_of(request: AckRequest) -> list[ReceiptAction]:
    """Each receipt once, in order. Pure. Raises `InvalidRequest`."""
    if request.commit:
        raise InvalidRequest(
            "commit moves the position of a stream group, and this is a queue group",
            hint="ack the receipts of the records",
            field="commit",
        )
    if not (request.nacks or request.extend):
        late = request.late_acks
        return [
            ReceiptAction(text, parse_queue_receipt(text), "ack", None, "", False, late)
            for text in dict.fromkeys(request.acks)
        ]
    actions: dict[str, ReceiptAction] = {}
    given = [
        *(
            ReceiptAction(text, parse_queue_receipt(text), "ack", late=request.late_acks)
            for text in request.acks
        ),
        *(
            ReceiptAction(
                n.receipt,
                parse_queue_receipt(n.receipt),
                "nack",
                n.delay_ms,
                n.reason or "",
                unopened=n.unopened,
            )
            for n in request.nacks
        ),
        *(
            ReceiptAction(
                e.receipt,
                parse_queue_receipt(e.receipt),
                "extend",
                e.visibility_timeout_ms,
                may_shorten=e.may_shorten,
            )
            for e in request.extend
        ),
    ]
    for action in given:
        first = actions.setdefault(action.text, action)
        if first.does != action.does:
            raise InvalidRequest(
                f"receipt {action.text} is in {first.does}s and in {action.does}s",
                hint="one of them",
                field=f"{action.does}s",
            )
    return list(actions.values())


def refused_of(
    action: ReceiptAction,
    topics: Mapping[str, str],
    why: RefusedWhy,
    refusal: Refusal | None = None,
) -> RefusedReceipt:
    receipt = action.receipt
    refused = RefusedReceipt(
        receipt=action.text,
        topic=topics.get(receipt.topic_id, ""),
        partition=receipt.partition,
        offset=receipt.offset,
        why=why,
        attempt=receipt.attempt,
    )
    if refusal is not None and refusal.why == "timed_out":
        refused.deadline = refusal.current
        refused.current_attempt = receipt.attempt
    elif refusal is not None:
        refused.current_attempt = refusal.current
    return refused


def explain(refused: RefusedReceipt) -> str:
    """One phrase with the numbers. Pure."""
    what = f"attempt {refused.attempt} at {refused.topic}/{refused.partition}@{refused.offset}"
    match refused.why:
        case "timed_out":
            return f"{what} has timed out: its deadline was {refused.deadline} µs"
        case "superseded":
            newest = "a newer one" if refused.current_attempt is None else refused.current_attempt
            return f"{what} presented, {newest} current"
        case "settled":
            return f"{what} presented, and the record is settled or given back already"
        case "unknown":
            return f"{what} was never delivered; {refused.current_attempt or 0} is the newest"
        case "other_group":
            return f"{what} was delivered to another group"
        case "elsewhere":
            return f"{what}: the partition is at {refused.location}"
        case "topic_deleted":
            return f"{what}: the topic was deleted"
        case "group_deleted":
            return f"{what}: the group was deleted"


Gone = Literal["topic_deleted", "group_deleted"]


def all_gone(group: str, refused: Sequence[RefusedReceipt]) -> Rejected | None:
    """The error of a request of which every receipt is of a deleted topic, or group. Pure."""
    gone = {one.why for one in refused}
    if gone == {"topic_deleted"}:
        return UnknownTopic(
            f"the topic of {explain(refused[0]).split(': ')[0]} was deleted",
            hint="drop the receipt: there is nothing left to settle",
            stored="no",
        )
    if gone and gone <= {"group_deleted", "topic_deleted"}:
        return UnknownGroup(
            f"group {group!r} was deleted: {len(refused)} receipts are not good any more",
            hint="drop them: a group of the same name starts anew",
            stored="no",
        )
    return None


def superseded(answer: SettleAnswer) -> AttemptSuperseded:
    first = answer.refused[0]
    return AttemptSuperseded(
        explain(first) + (f" (and {len(answer.refused) - 1} more)" if answer.refused[1:] else ""),
        hint="send what is elsewhere there" if first.why == "elsewhere" else "drop it",
        stored="no",
        settled=[one.model_dump() for one in answer.settled],
        refused=[one.model_dump() for one in answer.refused],
    )
