"""The HTTP calls of a consumer-service node (port 8081)."""

from __future__ import annotations

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
from consumer_service.http.bodies import body_of, wants
from consumer_service.http.deliveries import delivery_calls, queue_calls
from consumer_service.http.doors import may_begin, may_send, pauses_of, tell_what_was
from consumer_service.http.paths import (
    CountsPath,
    GroupPath,
    MemberPath,
    RecordPath,
    StatusPath,
    TopicPath,
)
from consumer_service.metrics import Metrics
from consumer_service.node import Node
from consumer_service.webhooks.posts import Webhooks
from lakequeue import wire
from lakequeue.errors import NotReady
from lakequeue.wire.cloud_events import BATCH, batch_of
from queue_access.audit_line import Nowhere, Sink
from queue_access.rights import Kind, Right
from serving.answers import (
    answer_errors,
    bad_path,
    json_answer,
    made_once,
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
from serving.front.limits.budget import Budget
from serving.meters import CONTENT_TYPE
from serving.openapi_document import completed
from serving.requests import count_bodies, query_parameters


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
    delivery_calls(app, node, groups, metrics)
    _groups(app, node, groups, seeks, anonymous)
    _pauses(app, node, Pausing(node))
    queue_calls(app, node, groups, anonymous, metrics)
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
        asked = body_of(wire.JoinRequest)
        may_begin(node.session, path.group, asked.topics, asked.dead_letter_topic)
        return _answer(groups.join(path.group, asked, host, tells_of_new()), 201)

    @app.delete("/v1/groups/<group>/members/<member>", summary="Leave a group", **openapi.LEAVE)
    def leave(path: MemberPath) -> Response:
        groups.leave(path.group, path.member, query_parameters(wire.LeaveQuery).after)
        return Response(status=204)

    @app.post("/v1/groups/<group>/members/<member>/heartbeat", summary="Stay", **openapi.HEARTBEAT)
    def heartbeat(path: MemberPath) -> Response:
        return _answer(groups.heartbeat(path.group, path.member))


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
        asked = body_of(wire.SeekRequest)
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
        answer = pausing.pause(path.group, body_of(wire.PauseRequest))
        came_to(pauses_of(node, path.group))
        return _answer(answer)

    @app.post("/v1/groups/<group>/resume", summary="Deliver again", **openapi.PAUSE)
    def resume(path: GroupPath) -> Response:
        answer = pausing.resume(path.group, body_of(wire.PauseRequest))
        came_to(pauses_of(node, path.group))
        return _answer(answer)


def _purge(app: OpenAPI, purges: Purges) -> None:
    @app.post("/v1/groups/<group>/purge", summary="Settle all there is", **openapi.PURGE)
    def purge(path: GroupPath) -> Response:
        asked = body_of(wire.PurgeRequest)
        must_know(Kind.TOPIC, asked.topics or ())
        answer = purges.purge(path.group, asked)
        ends = {f"{one.topic}/{one.partition}": one.offset for one in answer.partitions}
        came_to({"positions": ends})
        return _answer(answer)


def _redrive(app: OpenAPI, redrives: Redrives) -> None:
    @app.post("/v1/topics/<topic>/redrive", summary="Send dead records back", **openapi.REDRIVE)
    def redrive(path: TopicPath) -> Response:
        asked = body_of(wire.RedriveRequest)
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
        asked = body_of(wire.WebhookRequest)
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
        if wants(BATCH):
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


def _answer(shape: BaseModel, status: int = 200) -> Response:
    return json_answer(shape.model_dump(), status)
