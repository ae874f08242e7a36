"""What `/openapi.json` says beyond the paths: bodies, parameters and answers of each call."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from lakequeue import wire
from serving.openapi_document import answered, header, problems

DESCRIPTION = (
    "Groups of consumers, over the ordered log. A 200 to an ack means that the position is "
    "durable and will never be delivered again. Errors are application/problem+json with `code`, "
    "`detail`, `hint`, `retryable`, and for acks `stored`."
)


DEFINITIONS: dict[str, Any] = {}
"""Shapes inside of bodies: the framework keeps none but those of answers."""


def _body(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    DEFINITIONS.update(schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {wire.JSON: {"schema": schema}}}}


def _call(
    answers: dict[Any, Any], *statuses: int, body: type[BaseModel] | None = None
) -> dict[str, Any]:
    call: dict[str, Any] = {"responses": {**answers, **problems(*statuses)}}
    if body is not None:
        call["openapi_extensions"] = _body(body)
    return call


def _query(shape: type[BaseModel], *headers: dict[str, Any]) -> dict[str, Any]:
    properties = shape.model_json_schema()["properties"].items()
    parameters = [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in properties
    ]
    return {"x-query-parameters": [*parameters, *headers]}


JOIN = _call({201: wire.JoinAnswer}, 400, 404, 415, 422, 503, body=wire.JoinRequest)
LEAVE = _call({204: None}, 404, 422)
LEAVE["openapi_extensions"] = _query(wire.LeaveQuery)
HEARTBEAT = _call({200: wire.HeartbeatAnswer}, 404)
POLL = _call({200: wire.PollAnswer}, 404, 422, 503)
_PREFER = header(
    "Prefer",
    "return=minimal, with `after`: `assignment` is null if it is as told before",
    {"type": "string"},
)
POLL["openapi_extensions"] = _query(wire.PollQuery, _PREFER)
WORK = _call({200: wire.WorkAnswer}, 400, 404, 422, 429, 503, 507, body=wire.WorkRequest)
EVENTS = _call(
    {200: answered("Records, as server-sent events", wire.SSE, {"type": "string"})}, 404, 422
)
ACKS = _call({200: wire.AckAnswer}, 400, 404, 409, 422, 429, 503, 507, body=wire.AckRequest)
DESCRIBE = _call({200: wire.GroupDescription}, 404, 422, 503)
DELETE = _call({204: None}, 404, 409, 503)
SEEK = _call({200: wire.SeekAnswer}, 400, 404, 409, 422, 503, body=wire.SeekRequest)
PAUSE = _call({200: wire.PauseAnswer}, 400, 404, 422, 503, body=wire.PauseRequest)
PUT_QUEUE = _call(
    {200: wire.QueueGroupAnswer}, 400, 409, 415, 422, 503, body=wire.QueueGroupRequest
)
RECEIVE = _call({200: wire.ReceiveAnswer}, 400, 404, 409, 415, 422, 503, body=wire.ReceiveRequest)
SETTLE = _call({200: wire.SettleAnswer}, 400, 409, 415, 422, 429, 503, 507, body=wire.AckRequest)
PURGE = _call({200: wire.PurgeAnswer}, 400, 404, 415, 422, 503, body=wire.PurgeRequest)
REDRIVE = _call(
    {200: wire.RedriveAnswer}, 400, 404, 413, 415, 422, 429, 503, body=wire.RedriveRequest
)
BROWSE = _call({200: wire.BrowseAnswer}, 404, 422, 503)
BROWSE["openapi_extensions"] = _query(wire.BrowseQuery)
RECORD = _call(
    {200: answered("The record, as a poll delivers it", wire.JSON, {"type": "object"})},
    404,
    422,
    503,
)
STATUS = _call({200: wire.RecordStatus, 307: None}, 404, 422, 503)
STATUS["openapi_extensions"] = _query(wire.StatusQuery)
COUNTS = _call({200: wire.TopicCounts}, 404, 422, 503)
ADVICE = _call({200: wire.AdviceAnswer}, 422, 503)
ADVICE["openapi_extensions"] = _query(wire.AdviceQuery)
PUT_WEBHOOK = _call(
    {200: wire.WebhookDescription}, 400, 404, 409, 415, 422, 503, body=wire.WebhookRequest
)
WEBHOOK = _call({200: wire.WebhookDescription}, 404, 503)
DROP_WEBHOOK = _call({204: None}, 404, 503)
