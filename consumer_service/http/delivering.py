"""What a poll and a receive come to, in steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from consumer_service.calls.anonymous_members import AnonymousMembers
from consumer_service.calls.groups import IDLE_WAIT_S, Groups
from consumer_service.members import Member
from consumer_service.metrics import Metrics
from consumer_service.node import Node
from consumer_service.polls.served import Settling, answer_of, take_back
from consumer_service.polls.traces import settled
from consumer_service.queues.brought import Brought
from consumer_service.reading.columns import Form
from lakequeue import wire
from lakequeue.errors import AttemptSuperseded, LakequeueError, SentOn
from lakequeue.tracing.context import TraceContext
from serving.front.messages import Answer, json_of
from serving.front.parking import BLOCKS, Steps


def polled(
    node: Node,
    groups: Groups,
    metrics: Metrics,
    member: Member,
    limit: int,
    query: wire.PollQuery | wire.WorkRequest,
    gone: Callable[[], bool],
    *,
    events: bool = False,
    form: Form = "json",
    minimal: bool = False,
    brought: Brought | None = None,
) -> Steps[Answer]:
    """What a poll comes to. `events`: as CloudEvents. `form`: that of columns, if they pay.
    `minimal`: without the assignment, if the client knows it. `brought`: what came with it."""
    began = time.perf_counter()
    mode = node.mode_of(member)
    steps = mode.steps
    if brought is not None:
        steps = partial(node.queues.steps, brought=brought)
    elif mode is node.streams and not events:
        steps = partial(node.streams.steps, form=form)
    idle = groups.has_nothing(member)
    wait_s = min(query.wait_ms / 1_000, IDLE_WAIT_S if idle else float("inf"))
    with metrics.polling():
        delivered = yield from steps(member, limit, wait_s, gone, query.after)
    if gone():
        yield BLOCKS
        take_back(member, delivered)
        return Answer(204)
    if idle and not delivered.records:
        yield BLOCKS
        groups.send_on(member)
    mode.before_leaving(member, delivered)
    if not member.active and not delivered.records:
        node.members.get(member.group, member.member_id)
    told = groups.assigned(member)
    if not (delivered.records or told.rows):
        yield BLOCKS
        groups.check_topics(member)
    delivered.keep_only(told.epochs)
    after = query.after if minimal else None
    # As CloudEvents records leave alone, and tell nothing.
    known = not events and member.told.knows(after, delivered.number, told.digest)
    beside: dict[str, object] = {
        "poll": delivered.number,
        "assignment": None if known else told.rows,
        "assignment_version": node.reconciler.assignment_version(member.group),
    }
    if brought is not None:
        outcome = yield from brought.end()
        # Mostly there is nothing to say.
        beside["settled"] = [one.model_dump() for one in outcome.settled]
        beside["refused"] = [one.model_dump() for one in outcome.refused]
    took = time.perf_counter() - began
    return answer_of(member, delivered, metrics.delivered, beside, took, events=events)


Settle = Callable[[wire.AckRequest], Settling]


@contextmanager
def counting_refusals(metrics: Metrics) -> Iterator[None]:
    """An error within counts as a refusal of acks; if it does not say so, nothing was stored."""
    try:
        yield
    except LakequeueError as e:
        e.stored = e.stored or "no"
        metrics.refused(e.code)
        raise


def acked(
    metrics: Metrics, group: str, trace: TraceContext | None, settle: Callable[[], Settling]
) -> Steps[Answer]:
    """What acks come to. While they become durable, with those of others, they need no thread."""
    started = time.perf_counter()
    with counting_refusals(metrics):
        answer = yield from settled(group, trace, settle())
    metrics.acked(time.perf_counter() - started)
    return json_of(answer.model_dump())


def worked(
    node: Node,
    groups: Groups,
    metrics: Metrics,
    member: Member,
    asked: wire.WorkRequest,
    trace: TraceContext | None,
    gone: Callable[[], bool],
) -> Steps[Answer]:
    """What acks come to, and the poll that brings them along: JSON, which has a place for both."""
    limit = min(asked.max, node.settings.consumer.max_poll_records)
    given = asked.acks or asked.nacks or asked.extend
    brought = node.queues.brought(member.group, asked, trace)
    steps = polled(node, groups, metrics, member, limit, asked, gone, brought=brought)
    try:
        return (yield from steps)
    except LakequeueError as error:
        yield from _say(error, brought)
        if brought.failed:
            metrics.refused(error.code)
        raise
    finally:
        if given and brought.answer is not None:
            metrics.acked(brought.took_s)
            if brought.answer.refused:
                metrics.refused(AttemptSuperseded.code)


def _say(error: LakequeueError, brought: Brought) -> Steps[None]:
    """Have the error of a poll say what became of the acks."""
    if brought.failed:
        error.stored = error.stored or "no"
        return
    error.extra |= (yield from brought.end()).model_dump()
    error.stored = "yes"


def received(
    node: Node,
    groups: Groups,
    anonymous: AnonymousMembers,
    metrics: Metrics,
    group: str,
    asked: wire.ReceiveRequest,
    gone: Callable[[], bool],
    made: Callable[[object], object],
    *,
    events: bool = False,
) -> Steps[Answer]:
    """What a receive comes to. `events`: as CloudEvents."""
    began = time.perf_counter()
    limit = min(asked.max, node.settings.consumer.max_poll_records)
    wait_s = asked.wait_ms / 1_000
    with anonymous.borrowed(group, asked.topics or [group], made) as member:
        yield from anonymous.wait_for_partitions(member)
        member.visibility_ms = asked.visibility_timeout_ms
        idle = groups.has_nothing(member)
        with metrics.polling():
            wait_s = min(wait_s, IDLE_WAIT_S) if idle else wait_s
            delivered = yield from node.queues.steps(member, limit, wait_s, gone)
        if gone():
            take_back(member, delivered)
            return Answer(204)
        if idle and not delivered.records:
            yield BLOCKS
            try:
                groups.send_on(member)
            except SentOn as e:
                there = str(e.extra["location"]).removesuffix("/members")
                return Answer(307, headers=[("Location", f"{there}/receive")])
    took = time.perf_counter() - began
    return answer_of(member, delivered, metrics.delivered, seconds=took, events=events)
