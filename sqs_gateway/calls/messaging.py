"""Operations on messages: send, receive, delete, change their visibility.

They wait for what goes together with others, and need no thread while they do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from lakequeue.clock import boot_seconds
from lakequeue.errors import LakequeueError, NotReady, UnknownGroup, UnknownTopic
from lakequeue.wire import parse_queue_receipt
from serving.front.parking import Done, Steps, Until
from sqs_gateway.calls.asked import Asked, DoSteps, Output, result_of
from sqs_gateway.calls.queues import Queue
from sqs_gateway.calls.receiving import Ticket
from sqs_gateway.calls.refusals import refusal_of
from sqs_gateway.calls.settling import DONE, Action
from sqs_gateway.rules import messages
from sqs_gateway.rules.attributes import MAX_MESSAGE_BYTES
from sqs_gateway.rules.batches import Outcomes, checked_entries
from sqs_gateway.rules.errors import (
    BATCH_TOO_LONG,
    INVALID_PARAMETER,
    MESSAGE_NOT_INFLIGHT,
    RECEIPT_INVALID,
    SqsError,
    no_such_queue,
)
from sqs_gateway.rules.message_attributes import wanted
from sqs_gateway.rules.operations import MAX_VISIBILITY_S, OPERATIONS
from sqs_gateway.rules.receipts import Handle, handle_of
from sqs_gateway.rules.shapes import Input, check

_GONE: Final = frozenset({"unknown_topic", "topic_deleted", "unknown_group", "group_deleted"})
"""A receive says of a group that is gone as well that there is no such queue."""
_OVER: Final = frozenset({DONE, "superseded", "timed_out", "settled", "unknown"})
"""What became of a message whose delete is answered as done. `unknown`: the partition has moved
since, and its new node was never told of a message that is deleted."""
_HIDDEN_MS: Final = 30_000
_EXPIRED: Final = frozenset({"superseded", "timed_out"})


def send_message(asked: Asked) -> Steps[Output]:
    """Send one; it is durable when this returns."""
    queue = asked.queue()
    message = messages.sent_of(asked.given, queue.rules)
    sending = asked.caller.sending.begin(queue.name, [message], ordered=queue.fifo)
    (sent,) = yield from result_of(sending)
    if isinstance(sent, Exception):
        raise sent
    return message.answer(sent)


def send_message_batch(asked: Asked) -> Steps[Output]:
    """Send up to ten, each by itself."""
    entries = checked_entries(asked.given)
    queue = asked.queue()
    rules, outcomes = queue.rules, Outcomes()
    found = outcomes.each(entries, lambda entry: _message(entry, rules))
    if sum(one.size for one in found.values()) > MAX_MESSAGE_BYTES:
        raise SqsError(
            BATCH_TOO_LONG,
            f"Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes.",
        )
    messages_of = list(found.values())
    sending = asked.caller.sending.begin(queue.name, messages_of, ordered=queue.fifo)
    sent = yield from result_of(sending)
    for (entry_id, message), offset in zip(found.items(), sent, strict=True):
        if isinstance(offset, Exception):
            outcomes.failed_by(entry_id, refusal_of(offset))
        else:
            outcomes.done.append({"Id": entry_id} | message.answer(offset))
    return outcomes.answer()


def _message(entry: Input, rules: messages.Rules) -> messages.Sent:
    _check_entry("SendMessageBatch", entry)
    return messages.sent_of(entry, rules)


def _check_entry(operation: str, entry: Input) -> None:
    """Raise `SqsError` for what this entry lacks, or has out of bounds."""
    fields = next(one for one in OPERATIONS[operation].fields if one.entry)
    check(fields.entry, entry)


# -- receiving ------------------------------------------------------------------------------------


def receive_message(asked: Asked) -> Steps[Output]:
    """Up to ten; waits for the first."""
    queue, given = asked.queue(), asked.given
    wait_s = given.get("WaitTimeSeconds", queue.number("ReceiveMessageWaitTimeSeconds"))
    hidden_s = given.get("VisibilityTimeout", queue.visibility_s)
    hidden_ms = None if hidden_s is None else max(1, hidden_s * 1_000)
    most = given.get("MaxNumberOfMessages", 1)
    attempt = messages.named(given, "ReceiveRequestAttemptId") if queue.fifo else None
    if attempt is not None:
        again = yield from _again(asked, queue.name, attempt, hidden_ms)
        if again is not None:
            return again
    ticket = Ticket(most, boot_seconds() + wait_s, asked.gone)
    line = asked.caller.receiving.ask(queue.name, hidden_ms, ticket)
    while not ticket.future.done():
        left_s = ticket.left_s(boot_seconds())
        over = asked.gone() or (wait_s and not left_s)
        if over and line.withdraw(ticket):
            return {}
        if over or not wait_s:
            yield from result_of(ticket.future)
        else:
            yield Until(Done(ticket.future), left_s)
    try:
        records = ticket.future.result()
    except (UnknownTopic, UnknownGroup):
        asked.caller.queues.forget(queue.name)
        raise no_such_queue() from None
    if records and asked.gone():
        # The client has hung up: another gets them at once.
        asked.caller.give_back(queue.name, records)
        return {}
    now_ms = int(time.time() * 1_000)
    asks = messages.Wanted(
        wanted(_together(given, "AttributeNames", "MessageSystemAttributeNames")),
        wanted(given.get("MessageAttributeNames") or ()),
    )
    found = [
        messages.received(
            record,
            Handle(record["receipt"], now_ms).text(queue.name),
            asks,
            fifo=queue.fifo,
            account=asked.names.account,
            now_ms=now_ms,
            arn=asked.names.arn,
        )
        for record in records
    ]
    if not found:
        return {}
    if attempt is not None:
        receipts = [record["receipt"] for record in records]
        asked.caller.attempts.keep(
            asked.caller.key, queue.name, attempt, {"Messages": found}, receipts
        )
    return {"Messages": found}


def _again(asked: Asked, queue: str, attempt: str, hidden_ms: int | None) -> Steps[Output | None]:
    """What was answered to the same attempt, hidden anew. None: nothing was, or one of the
    messages is not in flight any more."""
    given = asked.caller.attempts.find(asked.caller.key, queue, attempt)
    if given is None:
        return None
    actions = [Action(one, "hide", hidden_ms or _HIDDEN_MS) for one in given.receipts]
    settled = yield from result_of(asked.caller.settling.begin(queue, actions))
    return given.answer if all(outcome == DONE for outcome in settled) else None


def _together(given: Input, *names: str) -> list[str]:
    return [one for name in names for one in given.get(name) or ()]


# -- receipts -------------------------------------------------------------------------------------


def delete_message(asked: Asked) -> Steps[Output]:
    """It is never received again, if nobody else has it by now."""
    queue = asked.queue()
    action = _ack(asked.given, queue.name)
    (outcome,) = yield from result_of(asked.caller.settling.begin(queue.name, [action]))
    check_deleted(_seen_by(queue, action, outcome), queue.fifo)
    return {}


def _seen_by(queue: Queue, action: Action, outcome: str | Exception) -> str | Exception:
    """A receipt of a deleted queue is one of another queue, if the same name was made anew."""
    anew = parse_queue_receipt(action.receipt).topic_id != queue.topic.topic_id
    return "other_group" if outcome in _GONE and anew else outcome


def _check_settled(outcome: str | Exception) -> None:
    if isinstance(outcome, Exception):
        raise outcome
    if outcome in _GONE:
        raise no_such_queue()
    if outcome == "other_group":
        raise SqsError(RECEIPT_INVALID, "The receipt handle is of another queue.")


def check_deleted(outcome: str | Exception, fifo: bool) -> None:
    """Raise what a delete is refused with. An old handle is no error of a standard queue, nor is a
    message that is deleted already.
    """
    _check_settled(outcome)
    if outcome not in _OVER:
        raise NotReady(
            f"the message is not deleted: {outcome}", hint="send it again", stored="unknown"
        )
    if fifo and outcome in _EXPIRED:
        raise SqsError(
            INVALID_PARAMETER,
            "The parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
        )


def delete_message_batch(asked: Asked) -> Steps[Output]:
    """Delete up to ten, each by itself."""
    return _each_receipt(asked, "DeleteMessageBatch", _ack, check_deleted)


def _ack(entry: Input, queue: str) -> Action:
    return Action(handle_of(entry["ReceiptHandle"], queue).receipt, "ack")


def change_message_visibility(asked: Asked) -> Steps[Output]:
    """Hide it for so long from now on; 0 gives it back."""
    queue = asked.queue()
    action = _hide(asked.given, queue.name)
    (outcome,) = yield from result_of(asked.caller.settling.begin(queue.name, [action]))
    _check_hidden(_seen_by(queue, action, outcome), queue.fifo)
    return {}


def change_message_visibility_batch(asked: Asked) -> Steps[Output]:
    """The same of up to ten, each by itself."""
    return _each_receipt(asked, "ChangeMessageVisibilityBatch", _hide, _check_hidden)


def _hide(given: Input, queue: str) -> Action:
    handle = handle_of(given["ReceiptHandle"], queue)
    seconds: int = given["VisibilityTimeout"]
    passed_s = time.time() - handle.received_ms / 1_000
    if seconds and passed_s + seconds > MAX_VISIBILITY_S + 1:
        raise SqsError(
            INVALID_PARAMETER,
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: Total"
            f" VisibilityTimeout for the message is beyond the limit [{MAX_VISIBILITY_S} seconds].",
        )
    if not seconds:
        return Action(handle.receipt, "give_back")
    return Action(handle.receipt, "hide", seconds * 1_000)


def _check_hidden(outcome: str | Exception, _fifo: bool) -> None:
    _check_settled(outcome)
    if outcome != DONE:
        raise SqsError(MESSAGE_NOT_INFLIGHT, "The message referred to is not in flight any more.")


def _each_receipt(
    asked: Asked,
    operation: str,
    action_of: Callable[[Input, str], Action],
    check_outcome: Callable[[str | Exception, bool], None],
) -> Steps[Output]:
    entries = checked_entries(asked.given)
    queue, outcomes = asked.queue(), Outcomes()

    def judged(entry: Input) -> Action:
        _check_entry(operation, entry)
        return action_of(entry, queue.name)

    found = outcomes.each(entries, judged)
    settled: list[str | Exception] = []
    if found:
        settling = asked.caller.settling.begin(queue.name, list(found.values()))
        settled = yield from result_of(settling)
    for (entry_id, action), outcome in zip(found.items(), settled, strict=True):
        try:
            check_outcome(_seen_by(queue, action, outcome), queue.fifo)
        except SqsError as error:
            outcomes.failed_by(entry_id, error)
        except LakequeueError as error:
            outcomes.failed_by(entry_id, refusal_of(error))
        else:
            outcomes.done.append({"Id": entry_id})
    return outcomes.answer()


def operations() -> dict[str, DoSteps]:
    """By name."""
    return {
        "SendMessage": send_message,
        "SendMessageBatch": send_message_batch,
        "ReceiveMessage": receive_message,
        "DeleteMessage": delete_message,
        "DeleteMessageBatch": delete_message_batch,
        "ChangeMessageVisibility": change_message_visibility,
        "ChangeMessageVisibilityBatch": change_message_visibility_batch,
    }
