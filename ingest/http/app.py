"""The HTTP calls of an ingest node (port 8080)."""

from __future__ import annotations

import contextlib
from typing import Any

import orjson
from flask import Response, request
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI
from pydantic import BaseModel, Field
from werkzeug.exceptions import HTTPException

from ingest.http import openapi
from ingest.http.bodies import media_type, query_of
from ingest.http.cloud_events import attributes_of
from ingest.http.decompression import decompress, too_large_body
from ingest.http.producing import Asked, Producing
from ingest.metrics import Metrics
from ingest.node import IngestNode
from ingest.producers import begin_epoch, epoch_of
from lakequeue import wire
from lakequeue.errors import LakequeueError, MalformedBody, UnknownTopic, UnsupportedMediaType
from lakequeue.tracing.context import TRACEPARENT, TRACESTATE, context_of
from queue_access.audit_line import Nowhere, Sink
from queue_access.quotas import check_topics
from queue_access.rights import Kind, Right
from serving.answers import answer_errors, json_answer, made_once, waiting
from serving.doors.asked import audit_changes, caller, may_know, must, says, was
from serving.front.messages import Answer, json_of
from serving.front.parking import Steps
from serving.json_cost import room
from serving.meters import CONTENT_TYPE
from serving.openapi_document import Problem, completed
from serving.requests import is_minimal

_PIECE = 256 << 10
_MAX_CONFIG_BYTES = 1 << 20
_MAX_DISCARDED = 64 << 20


class TopicPath(BaseModel):
    """The topic that a call is about."""

    topic: str = Field(description="1 to 249 characters of A-Z a-z 0-9 . _ -")


class ProducerPath(BaseModel):
    """The producer that a call is about."""

    producer_id: str = Field(description="1 to 249 characters of A-Z a-z 0-9 . _ -")


def create_app(
    node: IngestNode, metrics: Metrics, producing: Producing, audit: Sink | None = None
) -> OpenAPI:
    """The WSGI application of a node."""
    node.on_committed = metrics.committed
    info = Info(title="lakequeue ingest", version="1", description=openapi.DESCRIPTION)
    app = OpenAPI(
        __name__,
        info=info,
        doc_ui=False,
        static_folder=None,
        validation_error_model=Problem,
    )
    app.url_map.strict_slashes = False
    answer_errors(app, unknown="unknown", finish=_discard_body)
    audit_changes(app, audit or Nowhere())
    _topics(app, node)
    _settling(app, node)
    _records(app, node, producing)
    _producers(app, node)
    _state(app, node, metrics)
    return app


def _topics(app: OpenAPI, node: IngestNode) -> None:
    @app.get("/v1/topics", summary="List the topics", responses={200: wire.TopicList})
    def list_topics() -> Response:
        node.topics.refresh()
        return json_answer(
            {"topics": [t.description for t in node.topics.list() if may_know(Kind.TOPIC, t.topic)]}
        )

    @app.get("/v1/topics/<topic>", summary="Describe a topic", **openapi.DESCRIBE)
    def get_topic(path: TopicPath) -> Response:
        node.topics.refresh()
        return json_answer(node.topics.get(path.topic).description)

    @app.put("/v1/topics/<topic>", summary="Create a topic", **openapi.CREATE)
    def put_topic(path: TopicPath) -> Response:
        config = _config(node)
        _must_feed(config)
        _may_have(node, path.topic, config)
        _was(node, path.topic)
        topic, created = node.topics.create(path.topic, **config)
        return json_answer(topic.description, 201 if created else 200)

    @app.patch("/v1/topics/<topic>", summary="Alter a topic", **openapi.ALTER)
    def patch_topic(path: TopicPath) -> Response:
        changes = _config(node)
        _must_feed(changes)
        _may_have(node, path.topic, changes)
        _was(node, path.topic)
        return json_answer(node.topics.alter(path.topic, **changes).description)

    @app.delete("/v1/topics/<topic>", summary="Delete a topic", **openapi.DELETE)
    def delete_topic(path: TopicPath) -> Response:
        _was(node, path.topic)
        node.topics.delete(path.topic)
        return Response(status=204)


def _must_feed(config: dict[str, Any]) -> None:
    """Whoever has dead records sent to a topic sends to it."""
    letters = config.get("dead_letter_topic")
    must(Right.PRODUCE, Kind.TOPIC, [letters if isinstance(letters, str) else None])


def _may_have(node: IngestNode, name: str, config: dict[str, Any]) -> None:
    """Within the quota of the caller: of the topics whose names it may manage."""
    who = caller()
    if who.quota.topics is None and who.quota.partitions is None:
        return
    node.topics.refresh()
    there = {
        topic.topic: topic.partitions
        for topic in node.topics.list()
        if who.rights.allow(Right.MANAGE, Kind.TOPIC, topic.topic)
    }
    asked = config.get("partitions", there.get(name, wire.DEFAULT_PARTITIONS))
    check_topics(who.quota, there | {name: asked if isinstance(asked, int) else 0})


def _was(node: IngestNode, name: str) -> None:
    with contextlib.suppress(UnknownTopic):
        was(node.topics.get(name).description)


def _settling(app: OpenAPI, node: IngestNode) -> None:
    @app.post(
        "/v1/topics/<topic>/settle",
        summary="Wait until all that any node has taken is ordered",
        **openapi.SETTLE,
    )
    def settle(path: TopicPath) -> Response:
        query, _ = query_of(request.args, "json")
        node.topics.refresh()
        topic = node.topics.get(path.topic)
        was({"closed_until": topic.closed_until, "shards": node.root.shards("inbox")})

        def settled() -> Steps[Answer]:
            sealed = yield from node.settle(topic, query.timeout_ms / 1_000)
            answer = wire.SettledTopic(topic=topic.topic, sealed_shards=sealed)
            return json_of(answer.model_dump())

        return waiting(settled())


def _records(app: OpenAPI, node: IngestNode, producing: Producing) -> None:
    # Under the front these two are answered by `ways`, in the same steps.
    @app.post("/v1/topics/<topic>/records", summary="Produce records", **openapi.PRODUCE)
    def produce(path: TopicPath) -> Response:
        with node.budget.lease() as lease:
            body = _packed(node.settings.max_request_bytes, lease.grow)
            return waiting(producing.steps(producing.parse(path.topic, _asked(), body, lease)))

    @app.post("/v1/records", summary="Produce records to several topics", **openapi.PRODUCE_MANY)
    def produce_many() -> Response:
        with node.budget.lease() as lease:
            body = _packed(node.settings.max_request_bytes, lease.grow)
            return waiting(producing.steps(producing.parse(None, _asked(), body, lease)))


def _asked() -> Asked:
    return Asked(
        request.args.to_dict(),
        request.headers.get("Content-Type", ""),
        request.headers.get("Content-Encoding", ""),
        attributes_of(request.headers.items()),
        caller(),
        context_of(request.headers.get(TRACEPARENT), request.headers.get(TRACESTATE)),
        minimal=is_minimal(request.headers.get(wire.PREFER)),
    )


def _producers(app: OpenAPI, node: IngestNode) -> None:
    @app.post(
        "/v1/producers/<producer_id>/epochs",
        summary="Begin an epoch of a producer, and fence the earlier ones",
        **openapi.BEGIN_EPOCH,
    )
    def begin(path: ProducerPath) -> Response:
        query, _ = query_of(request.args, "json")
        with contextlib.suppress(LakequeueError):  # the call itself says what is wrong
            was({"epoch": epoch_of(node, path.producer_id)})
        return waiting(_in_json(begin_epoch(node, path.producer_id, query.timeout_ms), 201))


def _state(app: OpenAPI, node: IngestNode, metrics: Metrics) -> None:
    @app.get("/v1/nodes", summary="The nodes of both services", responses={200: wire.NodeList})
    def list_nodes() -> Response:
        return json_answer(node.presence.nodes().model_dump())

    @app.get("/healthz", summary="The process answers")
    def healthz() -> Response:
        return json_answer({"status": "alive", "node": node.node, "shard": node.appender.shard})

    @app.get("/readyz", summary="200: send requests here; 503 says why not")
    def readyz() -> Response:
        troubles = [{"code": t.code, "detail": t.detail} for t in node.troubles()]
        state = {
            "status": "not_ready" if troubles else "ready",
            "reasons": troubles,
            "node": node.node,
            "shard": node.appender.shard,
            "queue_id": node.root.queue_id,
            "zookeeper": node.presence.state,
            "warnings": node.tables.told(),
        }
        return json_answer(state, 503 if troubles else 200)

    @app.get("/metrics", summary="Prometheus metrics")
    def show_metrics() -> Response:
        return Response(metrics.text(), content_type=CONTENT_TYPE)

    document = made_once(lambda: completed(openapi.finished(app.api_doc)))

    @app.route("/openapi.json")
    def openapijson_answer() -> Response:
        return document()


# -- bodies and answers -------------------------------------------------------------------------


def _in_json(steps: Steps[Any], status: int) -> Steps[Answer]:
    return json_of((yield from steps), status)


def _body(limit: int, grow: Any) -> bytes:
    """The request's body, unpacked, never more than `limit` bytes; memory is taken by `grow`."""
    packed = _packed(limit, grow)
    return decompress(packed, request.headers.get("Content-Encoding", ""), limit, grow)


def _packed(limit: int, grow: Any) -> bytes:
    """The same as it was sent."""
    length = request.content_length
    if length is not None and length > limit:
        raise too_large_body(limit)
    return _read(limit, None if length is None else length, grow)


def _read(limit: int, length: int | None, grow: Any) -> bytes:
    if length is not None:
        grow(length)
    pieces: list[bytes] = []
    total = 0
    while piece := request.stream.read(_PIECE):
        total += len(piece)
        if total > limit:
            raise too_large_body(limit)
        if length is None:
            grow(len(piece))
        pieces.append(piece)
    return b"".join(pieces)


def _config(node: IngestNode) -> dict[str, Any]:
    """The JSON object of a topic call; an empty body is an empty object."""
    kind = request.headers.get("Content-Type", wire.JSON)
    if media_type(kind) != "json":
        raise UnsupportedMediaType(
            f"{kind[:100]!r} is not understood here", hint=f"send {wire.JSON}"
        )
    body = _body(_MAX_CONFIG_BYTES, lambda _: None)
    says(body)
    if not body:
        return {}
    try:
        with room(node.parsing, body):
            config = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise MalformedBody(f"the body is not JSON: {e}", hint='send {"partitions": 4}') from None
    if not isinstance(config, dict):
        raise MalformedBody("the body is not an object", hint='send {"partitions": 4}')
    return config


def _discard_body() -> None:
    """Read what is left of a refused body, and keep none of it.

    A client that is still sending would else find the connection closed in place of the answer,
    and would not know whether its records are stored. Beyond the bound the server closes it.
    """
    left = _MAX_DISCARDED
    with contextlib.suppress(HTTPException, OSError, ValueError):
        while left > 0 and (piece := request.stream.read(_PIECE)):
            left -= len(piece)
