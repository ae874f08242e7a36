"""Calls that deliver records, and those that settle them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flask import Response, request
from flask_openapi3.openapi import OpenAPI

from consumer_service.calls.anonymous_members import AnonymousMembers
from consumer_service.calls.groups import Groups
from consumer_service.http import openapi
from consumer_service.http.bodies import body_of, wants
from consumer_service.http.delivering import (
    Settle,
    acked,
    counting_refusals,
    polled,
    received,
    worked,
)
from consumer_service.http.doors import may_begin
from consumer_service.http.paths import GroupPath, MemberPath
from consumer_service.http.sse import Unlimited, event_stream
from consumer_service.members import Member
from consumer_service.metrics import Metrics
from consumer_service.node import Node
from consumer_service.reading.columns import Form
from lakequeue import wire
from lakequeue.errors import InvalidRequest
from lakequeue.tracing.context import TRACEPARENT, TRACESTATE, context_of
from lakequeue.wire.cloud_events import BATCH, ONE, event_of
from serving.answers import in_pieces, json_answer, waiting
from serving.doors.asked import may_work, tells_of_new
from serving.front import wsgi
from serving.requests import is_minimal, keeping_body, query_parameters


def delivery_calls(app: OpenAPI, node: Node, groups: Groups, metrics: Metrics) -> None:
    """Of members."""
    settings = node.settings.consumer

    @app.get("/v1/groups/<group>/members/<member>/records", summary="Poll", **openapi.POLL)
    def poll(path: MemberPath) -> Response:
        query = query_parameters(wire.PollQuery)
        member = _member(node, path)
        groups.send_away(member)
        events = wants(BATCH)
        form: Form = "arrow" if wants(wire.ARROW_STREAM) else "json"
        limit = min(query.max, settings.max_poll_records)
        steps = polled(
            node,
            groups,
            metrics,
            member,
            limit,
            query,
            _hung_up(),
            events=events,
            form=form,
            minimal=is_minimal(request.headers.get(wire.PREFER)),
        )
        return waiting(steps)

    @app.post("/v1/groups/<group>/members/<member>/records", summary="Work", **openapi.WORK)
    def work(path: MemberPath) -> Response:
        trace = context_of(request.headers.get(TRACEPARENT), request.headers.get(TRACESTATE))
        with counting_refusals(metrics):
            member = _member(node, path)
            if member.request.mode != "queue":
                raise InvalidRequest(
                    "acks come with a poll in queue groups only, and this is a stream group",
                    hint="POST …/acks, then GET …/records",
                )
            groups.send_away(member)
            asked = body_of(wire.WorkRequest)
        steps = worked(node, groups, metrics, member, asked, trace, _hung_up())
        return waiting(keeping_body(steps))

    @app.get(
        "/v1/groups/<group>/members/<member>/events",
        summary="Records as server-sent events",
        **openapi.EVENTS,
    )
    def events(path: MemberPath) -> Response:
        member = _member(node, path)
        last = request.headers.get("Last-Event-ID")
        call = request.environ.get(wsgi.CALL) or Unlimited()
        as_event = event_of if wants(ONE) else None
        stream = event_stream(node, groups, member, last, call, metrics, as_event)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return in_pieces(stream, wire.SSE, headers)

    @app.post("/v1/groups/<group>/members/<member>/acks", summary="Acknowledge", **openapi.ACKS)
    def acks(path: MemberPath) -> Response:
        return _acked(
            metrics, path.group, lambda asked: groups.acks(path.group, path.member, asked)
        )


def queue_calls(
    app: OpenAPI, node: Node, groups: Groups, anonymous: AnonymousMembers, metrics: Metrics
) -> None:
    """Of queue groups, without joining."""

    @app.put("/v1/groups/<group>", summary="Make a queue group", **openapi.PUT_QUEUE)
    def create(path: GroupPath) -> Response:
        asked = body_of(wire.QueueGroupRequest)
        may_begin(node.session, path.group, [], asked.dead_letter_topic)
        return json_answer(groups.create(path.group, asked).model_dump())

    @app.post("/v1/groups/<group>/receive", summary="Receive without joining", **openapi.RECEIVE)
    def receive(path: GroupPath) -> Response:
        asked = body_of(wire.ReceiveRequest)
        may_begin(node.session, path.group, asked.topics or [path.group])
        if (url := node.read_failover.better_node()) is not None:
            anonymous.dismiss(path.group)
            return _received_at(f"{url}/v1/groups/{path.group}")
        steps = received(
            node,
            groups,
            anonymous,
            metrics,
            path.group,
            asked,
            _hung_up(),
            tells_of_new(),
            events=wants(BATCH),
        )
        return waiting(steps)

    @app.post("/v1/groups/<group>/acks", summary="Settle by receipt", **openapi.SETTLE)
    def settle(path: GroupPath) -> Response:
        return _acked(metrics, path.group, lambda asked: groups.settle(path.group, asked))


def _member(node: Node, path: MemberPath) -> Member:
    member = node.members.get(path.group, path.member)
    may_work(member.request.topics)  # its rights may have changed since it joined
    return member


def _hung_up() -> Callable[[], bool]:
    """Tells whether the client of this request has gone: then an answer would be lost."""
    call = request.environ.get(wsgi.CALL)
    return (lambda: False) if call is None else call.gone


def _received_at(group_there: str) -> Response:
    """Not as a problem: any client that follows redirects gets there."""
    return Response(status=307, headers={"Location": f"{group_there}/receive"})


def _acked(metrics: Metrics, group: str, settle: Settle) -> Response:
    """Acks, by whichever call: timed, traced, and counted if they are refused."""
    trace = context_of(request.headers.get(TRACEPARENT), request.headers.get(TRACESTATE))
    with counting_refusals(metrics):
        asked = body_of(wire.AckRequest)
    return waiting(keeping_body(acked(metrics, group, trace, partial(settle, asked))))
