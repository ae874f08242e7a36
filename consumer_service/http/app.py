"""The HTTP calls of a consumer-service node (port 8081)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from flask import Response, request
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI
from pydantic import BaseModel

from consumer_service.calls.advising import Advising
from consumer_service.calls.anonymous_members import AnonymousMembers
from consumer_service.calls.browse import Browse
from consumer_service.calls.counting import Counting
from consumer_service.calls.groups import Groups
from consumer_service.calls.pause import Pausing
from consumer_service.calls.purge import Purges
from consumer_service.calls.redrives import Redrives
from consumer_service.calls.seek import Seeks
from consumer_service.calls.status import Statuses
from consumer_service.http import openapi
from consumer_service.http.delivering import Settle, acked, counting_refusals, polled, received
from consumer_service.http.doors import may_begin, may_send, pauses_of, tell_what_was
from consumer_service.http.paths import (
    CountsPath,
    GroupPath,
    MemberPath,
    RecordPath,
    StatusPath,
    TopicPath,
)
from consumer_service.http.sse import Unlimited, event_stream
from consumer_service.members import Member
from consumer_service.metrics import Metrics
from consumer_service.node import Node
from consumer_service.webhooks.posts import Webhooks
from lakequeue import wire
from lakequeue.errors import NotReady
from lakequeue.tracing.context import TRACEPARENT, TRACESTATE, context_of
from lakequeue.wire.cloud_events import BATCH, ONE, batch_of, event_of, wants
from queue_access.audit_line import Nowhere, Sink
from queue_access.rights import Kind, Right
from serving.answers import (
    answer_errors,
    bad_path,
    in_pieces,
    json_answer,
    made_once,
    waiting,
)
from serving.doors.asked import (
    audit_changes,
    came_to,
    may_know,
    may_work,
    must,
    must_know,
    tells_of_new,
)
from serving.front import wsgi
from serving.front.limits.budget import Budget
from serving.meters import CONTENT_TYPE
from serving.openapi_document import completed
from serving.requests import count_bodies, json_body, keeping_body, query_parameters

MAX_BODY_BYTES = 4 << 20
Shape = TypeVar("Shape", bound=BaseModel)


def create_app(node: Node, metrics: Metrics, audit: Sink | None = None) -> OpenAPI:
    """The WSGI application of a node."""
    info = Info(title="lakequeue consumer service", version="1", description=openapi.DESCRIPTION)
    app = OpenAPI(
        __name__, info=info, doc_ui=False, static_folder=None, validation_error_callback=bad_path
    )
    app.url_map.strict_slashes = False
    answer_errors(app)
    count_bodies(app, Budget(node.settings.consumer.max_parsed_bytes))
    audit_changes(app, audit or Nowhere())
    tell_what_was(app, node)
    groups = Groups(node)
    seeks, anonymous = Seeks(node), AnonymousMembers(node, groups)
    _members(app, node, groups)
    _delivery(app, node, groups, metrics)
    _groups(app, node, groups, seeks, anonymous)
    _pauses(app, node, Pausing(node))
    _queue_verbs(app, node, groups, anonymous, metrics)
    _purge(app, Purges(node, seeks))
    _redrive(app, Redrives(node))
    _status(app, Statuses(node))
    _counts(app, Counting(node))
    _load(app, Advising(node, groups))
    _webhooks(app, node, node.webhooks)
    _browse(app, Browse(node.topics, node.tailer, node.settings.consumer.max_poll_bytes))
    _state(app, node, metrics)
    return app


def _members(app: OpenAPI, node: Node, groups: Groups) -> None:
    @app.post("/v1/groups/<group>/members", summary="Join a group", **openapi.JOIN)
    def join(path: GroupPath) -> Response:
        if node.draining.is_set():
            raise NotReady("this node is stopping", hint="join through another node")
        node.read_failover.check()
        host = request.headers.get(wire.HOST_HEADER, request.remote_addr or "")
        asked = _body(wire.JoinRequest)
        may_begin(node.session, path.group, asked.topics, asked.dead_letter_topic)
        return _answer(groups.join(path.group, asked, host, tells_of_new()), 201)

    @app.delete("/v1/groups/<group>/members/<member>", summary="Leave a group", **openapi.LEAVE)
    def leave(path: MemberPath) -> Response:
        groups.leave(path.group, path.member)
        return Response(status=204)

    @app.post("/v1/groups/<group>/members/<member>/heartbeat", summary="Stay", **openapi.HEARTBEAT)
    def heartbeat(path: MemberPath) -> Response:
        return _answer(groups.heartbeat(path.group, path.member))


def _delivery(app: OpenAPI, node: Node, groups: Groups, metrics: Metrics) -> None:
    settings = node.settings.consumer

    @app.get("/v1/groups/<group>/members/<member>/records", summary="Poll", **openapi.POLL)
    def poll(path: MemberPath) -> Response:
        query = query_parameters(wire.PollQuery)
        member = _member(node, path)
        groups.send_away(member)
        events = _wants(BATCH)
        member.columns = not events and _wants(wire.ARROW_STREAM)
        limit = min(query.max, settings.max_poll_records)
        steps = polled(node, groups, metrics, member, limit, query, hung_up(), events=events)
        return waiting(steps)

    @app.get(
        "/v1/groups/<group>/members/<member>/events",
        summary="Records as server-sent events",
        **openapi.EVENTS,
    )
    def events(path: MemberPath) -> Response:
        member = _member(node, path)
        last = request.headers.get("Last-Event-ID")
        call = request.environ.get(wsgi.CALL) or Unlimited()
        as_event = event_of if _wants(ONE) else None
        stream = event_stream(node, groups, member, last, call, metrics, as_event)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return in_pieces(stream, wire.SSE, headers)

    @app.post("/v1/groups/<group>/members/<member>/acks", summary="Acknowledge", **openapi.ACKS)
    def acks(path: MemberPath) -> Response:
        return _acked(
            metrics, path.group, lambda asked: groups.acks(path.group, path.member, asked)
        )


def _groups(
    app: OpenAPI, node: Node, groups: Groups, seeks: Seeks, anonymous: AnonymousMembers
) -> None:
    @app.get("/v1/groups", summary="List the groups", responses={200: wire.GroupList})
    def list_groups() -> Response:
        known = groups.list().groups
        return _answer(wire.GroupList(groups=[g for g in known if may_know(Kind.GROUP, g.group)]))

    @app.get("/v1/groups/<group>", summary="Describe a group", **openapi.DESCRIBE)
    def describe(path: GroupPath) -> Response:
        return _answer(groups.describe(path.group))

    @app.delete("/v1/groups/<group>", summary="Delete a group", **openapi.DELETE)
    def delete(path: GroupPath) -> Response:
        anonymous.dismiss(path.group)
        seeks.delete(path.group)
        return Response(status=204)

    @app.post("/v1/groups/<group>/seek", summary="Move a group's position", **openapi.SEEK)
    def seek(path: GroupPath) -> Response:
        asked = _body(wire.SeekRequest)
        must_know(Kind.TOPIC, asked.topics or ())
        may_begin(node.session, path.group, [])
        anonymous.dismiss(path.group)
        answer = seeks.seek(path.group, asked)
        moved = {f"{one.topic}/{one.partition}": one.to_offset for one in answer.partitions}
        came_to({"executed": answer.executed, "positions": moved})
        return _answer(answer)


def _pauses(app: OpenAPI, node: Node, pausing: Pausing) -> None:
    @app.post("/v1/groups/<group>/pause", summary="Deliver nothing", **openapi.PAUSE)
    def pause(path: GroupPath) -> Response:
        answer = pausing.pause(path.group, _body(wire.PauseRequest))
        came_to(pauses_of(node, path.group))
        return _answer(answer)

    @app.post("/v1/groups/<group>/resume", summary="Deliver again", **openapi.PAUSE)
    def resume(path: GroupPath) -> Response:
        answer = pausing.resume(path.group, _body(wire.PauseRequest))
        came_to(pauses_of(node, path.group))
        return _answer(answer)


def _queue_verbs(
    app: OpenAPI, node: Node, groups: Groups, anonymous: AnonymousMembers, metrics: Metrics
) -> None:
    @app.put("/v1/groups/<group>", summary="Make a queue group", **openapi.PUT_QUEUE)
    def create(path: GroupPath) -> Response:
        asked = _body(wire.QueueGroupRequest)
        may_begin(node.session, path.group, [], asked.dead_letter_topic)
        return _answer(groups.create(path.group, asked))

    @app.post("/v1/groups/<group>/receive", summary="Receive without joining", **openapi.RECEIVE)
    def receive(path: GroupPath) -> Response:
        asked = _body(wire.ReceiveRequest)
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
            hung_up(),
            tells_of_new(),
            events=_wants(BATCH),
        )
        return waiting(steps)

    @app.post("/v1/groups/<group>/acks", summary="Settle by receipt", **openapi.SETTLE)
    def settle(path: GroupPath) -> Response:
        return _acked(metrics, path.group, lambda asked: groups.settle(path.group, asked))


def _purge(app: OpenAPI, purges: Purges) -> None:
    @app.post("/v1/groups/<group>/purge", summary="Settle all there is", **openapi.PURGE)
    def purge(path: GroupPath) -> Response:
        asked = _body(wire.PurgeRequest)
        must_know(Kind.TOPIC, asked.topics or ())
        answer = purges.purge(path.group, asked)
        ends = {f"{one.topic}/{one.partition}": one.offset for one in answer.partitions}
        came_to({"positions": ends})
        return _answer(answer)


def _redrive(app: OpenAPI, redrives: Redrives) -> None:
    @app.post("/v1/topics/<topic>/redrive", summary="Send dead records back", **openapi.REDRIVE)
    def redrive(path: TopicPath) -> Response:
        asked = _body(wire.RedriveRequest)
        may_work([], asked.to)
        must(Right.READ, Kind.TOPIC, [None if asked.to is None else path.topic])
        answer = redrives.run(path.topic, asked, may_send())
        came_to(answer.model_dump())
        return _answer(answer)


def _status(app: OpenAPI, statuses: Statuses) -> None:
    @app.get(
        "/v1/groups/<group>/topics/<topic>/partitions/<partition>/records/<offset>",
        summary="What became of a record in a group",
        **openapi.STATUS,
    )
    def status(path: StatusPath) -> Response:
        query = query_parameters(wire.StatusQuery)
        must_know(Kind.TOPIC, [path.topic])
        found = statuses.find(
            path.group, path.topic, path.partition, path.offset, sent_on=query.sent_on
        )
        if isinstance(found, str):
            return Response(status=307, headers={"Location": found})
        return _answer(found)


def _counts(app: OpenAPI, counting: Counting) -> None:
    @app.get(
        "/v1/groups/<group>/topics/<topic>/counts",
        summary="How many records of a topic a group has to do",
        **openapi.COUNTS,
    )
    def counts(path: CountsPath) -> Response:
        must_know(Kind.TOPIC, [path.topic])
        return _answer(counting.count(path.group, path.topic))


def _load(app: OpenAPI, advising: Advising) -> None:
    @app.get("/v1/advice", summary="What to add, by how lag goes", **openapi.ADVICE)
    def advice() -> Response:
        return _answer(advising.advise(query_parameters(wire.AdviceQuery).over_ms / 1_000))


def _webhooks(app: OpenAPI, node: Node, webhooks: Webhooks) -> None:
    @app.put("/v1/groups/<group>/webhook", summary="Register a webhook", **openapi.PUT_WEBHOOK)
    def put(path: GroupPath) -> Response:
        asked = _body(wire.WebhookRequest)
        may_begin(node.session, path.group, asked.topics, asked.dead_letter_topic)
        return _answer(webhooks.put(path.group, asked))

    @app.get("/v1/groups/<group>/webhook", summary="Describe a webhook", **openapi.WEBHOOK)
    def get(path: GroupPath) -> Response:
        return _answer(webhooks.get(path.group))

    @app.delete("/v1/groups/<group>/webhook", summary="Forget a webhook", **openapi.DROP_WEBHOOK)
    def drop(path: GroupPath) -> Response:
        webhooks.delete(path.group)
        return Response(status=204)


def _browse(app: OpenAPI, browse: Browse) -> None:
    @app.get("/v1/topics/<topic>/records", summary="Look at records", **openapi.BROWSE)
    def page(path: TopicPath) -> Response:
        # Not through pydantic: values are JSON already.
        found = browse.page(path.topic, query_parameters(wire.BrowseQuery))
        if _wants(BATCH):
            after = {"Lakequeue-Next-Offset": str(found.next_offset)}
            return Response(batch_of(found.records), headers=after, content_type=BATCH)
        return json_answer(vars(found))

    @app.get(
        "/v1/topics/<topic>/partitions/<partition>/records/<offset>",
        summary="Look at one record",
        **openapi.RECORD,
    )
    def record(path: RecordPath) -> Response:
        return json_answer(browse.record(path.topic, path.partition, path.offset))


def _state(app: OpenAPI, node: Node, metrics: Metrics) -> None:
    @app.get("/v1/nodes", summary="The nodes of both services", responses={200: wire.NodeList})
    def list_nodes() -> Response:
        return _answer(node.discovery.nodes())

    @app.get("/healthz", summary="The process answers")
    def healthz() -> Response:
        return json_answer({"status": "alive", "node": node.name, "shard": node.journal.shard})

    @app.get("/readyz", summary="200: send requests here; 503 says why not")
    def readyz() -> Response:
        reasons = node.not_ready()
        state = {
            "status": "not_ready" if reasons else "ready",
            "reasons": [{"code": "not_ready", "detail": reason} for reason in reasons],
            "node": node.name,
            "shard": node.journal.shard,
            "queue_id": node.root.queue_id,
            "warnings": node.tables.told(),
        }
        return json_answer(state, 503 if reasons else 200)

    @app.get("/metrics", summary="Prometheus metrics")
    def show_metrics() -> Response:
        return Response(metrics.text(), content_type=CONTENT_TYPE)

    document = made_once(lambda: completed(app.api_doc, openapi.DEFINITIONS))

    @app.route("/openapi.json")
    def openapijson_answer() -> Response:
        return document()


def _wants(media_type: str) -> bool:
    return wants(request.headers.get("Accept"), media_type)


# -- bodies and answers ---------------------------------------------------------------------------


def _member(node: Node, path: MemberPath) -> Member:
    member = node.members.get(path.group, path.member)
    may_work(member.request.topics)  # its rights may have changed since it joined
    return member


def hung_up() -> Callable[[], bool]:
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
        asked = _body(wire.AckRequest)
    return waiting(keeping_body(acked(metrics, group, trace, partial(settle, asked))))


def _body(shape: type[Shape]) -> Shape:
    return json_body(shape, MAX_BODY_BYTES, "send fewer acks at once, or commit positions")


def _answer(shape: BaseModel, status: int = 200) -> Response:
    return json_answer(shape.model_dump(), status)
