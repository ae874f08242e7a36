"""What `/openapi.json` says beyond the paths: bodies, parameters and answers of each call."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import BaseModel, Field

from lakequeue import wire
from lakequeue.wire import cloud_events
from serving.openapi_document import header, problems

DESCRIPTION = (
    "Topics, and records into them. A 200 to a produce call means that every record is durable. "
    "Errors are application/problem+json with `code`, `detail`, `hint`, `retryable` and `stored`."
)


class RecordIn(BaseModel):
    """One record of a produce request."""

    key: Any = Field(None, description="text or JSON; bytes as key_base64")
    key_base64: str | None = None
    value: Any = Field(None, description="text or JSON, null for none; bytes as value_base64")
    value_base64: str | None = None
    headers: dict[str, str] | list[dict[str, Any]] | None = None
    partition: int | None = Field(None, description="default: by key, else round robin")
    message_id: str | None = Field(None, description="deduplicated by it")
    timestamp: int | str | None = Field(None, description="microseconds since 1970, or RFC 3339")
    deliver_at: int | str | None = Field(None, description="queue groups: not before; a time")
    delay_ms: int | None = Field(None, ge=0, description="the same, from arrival")
    ttl_ms: int | None = Field(None, ge=1, description="not delivered when it is over")


class RecordOfTopic(RecordIn):
    """One record of a request for several topics."""

    topic: str


class ProduceIn(BaseModel):
    """A produce request in JSON."""

    records: list[RecordIn] = Field(min_length=1)
    producer_id: str | None = Field(None, min_length=1, max_length=249)
    producer_epoch: int | None = Field(
        None, ge=1, description="fenceable: the answer waits until it is ordered"
    )
    sequence: int | None = Field(None, ge=0, description="record i has sequence + i")
    after: int | None = Field(None, ge=0, description="the last stamp this producer has seen")
    atomic: bool = False
    consumed: wire.Consumed | None = Field(
        None, description="what the records were made from: they count with it, or not at all"
    )


class ProduceManyIn(ProduceIn):
    """A produce request for several topics."""

    records: list[RecordOfTopic] = Field(min_length=1)  # type: ignore[assignment]


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Its JSON Schema; models inside it are referred to as components."""
    found = model.model_json_schema(ref_template="#/components/schemas/{model}")
    found.pop("$defs", None)
    return found


def _body(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    content = {wire.JSON: {"schema": _schema(model)}}
    return {"requestBody": {"required": required, "content": content}}


def _parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema}


_BYTES = {"schema": {"type": "string", "format": "binary"}}
_QUERY = [
    _parameter(name, schema)
    for model in (wire.ProduceQuery, wire.ProduceEnvelope)
    for name, schema in _schema(model)["properties"].items()
    if name != "consumed"
]
_ENCODING = header("Content-Encoding", "How the body is compressed", {"enum": ["gzip", "zstd"]})
_PREFER = header(
    "Prefer",
    "return=minimal: where there is no more to say of any record, the answer has only the "
    "partitions",
    {"type": "string"},
)

DESCRIBE: dict[str, Any] = {"responses": {200: wire.TopicDescription, **problems(404)}}
CREATE: dict[str, Any] = {
    "responses": {
        200: wire.TopicDescription,
        201: wire.TopicDescription,
        **problems(400, 409, 422, 503),
    },
    "openapi_extensions": _body(wire.TopicConfig, required=False),
}
ALTER: dict[str, Any] = {
    "responses": {200: wire.TopicDescription, **problems(400, 404, 422, 503)},
    "openapi_extensions": _body(wire.TopicChanges, required=False),
}
DELETE: dict[str, Any] = {"responses": {204: None, **problems(404, 503)}}
PRODUCE: dict[str, Any] = {
    "responses": {
        200: wire.ProduceAnswer,
        **problems(400, 404, 409, 413, 415, 422, 429, 503, 504, 507),
    },
    "openapi_extensions": {
        "requestBody": {
            "required": True,
            "content": {
                wire.JSON: {"schema": _schema(ProduceIn)},
                wire.NDJSON: _BYTES,
                cloud_events.ONE: _BYTES,
                cloud_events.BATCH: _BYTES,
                wire.ARROW_STREAM: _BYTES,
            },
        },
    },
}
PRODUCE_MANY: dict[str, Any] = {
    "responses": PRODUCE["responses"],
    "openapi_extensions": _body(ProduceManyIn),
}
BEGIN_EPOCH: dict[str, Any] = {
    "responses": {201: wire.EpochAnswer, **problems(409, 422, 429, 503, 504, 507)}
}
SETTLE: dict[str, Any] = {"responses": {200: wire.SettledTopic, **problems(404, 422, 503, 504)}}
_PRODUCE_PATH = "/v1/topics/{topic}/records"


def finished(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what the framework cannot be told: query parameters, problem bodies."""
    document = deepcopy(document)
    document["paths"][_PRODUCE_PATH]["post"]["parameters"].extend(_QUERY)
    document["paths"]["/v1/records"]["post"].setdefault("parameters", []).extend(
        _parameter(name, schema)
        for name, schema in _schema(wire.ProduceQuery)["properties"].items()
    )
    for path in (_PRODUCE_PATH, "/v1/records"):
        said = document["paths"][path]["post"]
        said["parameters"] += [_ENCODING, _PREFER]
        content = said["responses"]["200"]["content"][wire.JSON]
        minimal = {"$ref": f"#/components/schemas/{wire.MinimalProduceAnswer.__name__}"}
        content["schema"] = {"oneOf": [content["schema"], minimal]}
    for model in (RecordIn, RecordOfTopic, wire.Consumed, wire.MinimalProduceAnswer):
        document["components"]["schemas"][model.__name__] = _schema(model)
    timeout = _parameter("timeout_ms", _schema(wire.ProduceQuery)["properties"]["timeout_ms"])
    for path in ("/v1/producers/{producer_id}/epochs", "/v1/topics/{topic}/settle"):
        document["paths"][path]["post"]["parameters"].append(timeout)
    return document
