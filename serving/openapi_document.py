"""The OpenAPI document as the framework makes it, made valid and complete. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, Field

from lakequeue import wire
from lakequeue.errors import every

_QUERY = "x-query-parameters"
_PROBLEM = {wire.PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_FRONT = {
    "408": "The request did not come in time",
    "413": "The body is too large",
    "429": "This kind of call is used up at this node, or its memory: see Retry-After",
    "431": "The head of the request is too large",
}
"""What any call may be answered by what carries it."""
_NAME = {"pattern": r"^[A-Za-z0-9._-]{1,249}$"}
_NAMED = frozenset({"topic", "group", "producer_id"})
"""Parameters of paths that are names."""
_STATES: dict[str, dict[str, Any]] = {
    "/healthz": {"200": ("It answers", wire.JSON)},
    "/readyz": {"200": ("Ready", wire.JSON), "503": ("Not ready: `reasons`", wire.JSON)},
    "/metrics": {"200": ("Prometheus text", "text/plain")},
}
"""What is answered there is no problem, whatever its status."""
_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or a token of an OIDC issuer. Needed if the queue has "
        "authentication on (`lakequeue auth init`); a client certificate does as well",
    }
}


class Problem(BaseModel):
    """An error, RFC 9457. Some calls add fields that say what was done."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str
    retryable: bool
    stored: str | None = Field(None, description="of sends and acks: no, unknown or yes")
    retry_after_s: float | None = None
    record: int | None = Field(None, description="index of the bad record in the request")
    field: str | None = Field(None, description="the bad field")


def header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that may stand in the head of a request."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": schema,
    }


def problems(*statuses: int) -> dict[Any, Any]:
    """The answers of a call that are problems."""
    return dict.fromkeys(statuses, Problem)


def answered(description: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """An answer that is no shape of the wire."""
    return {"description": description, "content": {kind: {"schema": schema}}}


def _codes(status: str) -> str:
    """The codes of errors that are answered with a status."""
    codes = sorted(c for c, error in every().items() if str(error.http_status) == status)
    return ", ".join(f"`{code}`" for code in codes)


def completed(
    document: dict[str, Any], definitions: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Query parameters, problems and definitions where tools look for them.

    `definitions`: schemas that are referred to as components and are not there yet.
    """
    document = deepcopy(document)
    components = document["components"]
    document["components"] = {k: v for k, v in components.items() if v is not None}
    document["components"]["securitySchemes"] = _SCHEMES
    schemas = document["components"].setdefault("schemas", {})
    for name, schema in (definitions or {}).items():
        schemas.setdefault(name, deepcopy(schema))
    for operation in _operations(document):
        operation.setdefault("parameters", []).extend(operation.pop(_QUERY, ()))
        _complete_responses(operation.setdefault("responses", {}))
        for parameter in operation["parameters"]:
            if parameter["in"] == "path" and parameter["name"] in _NAMED:
                parameter["schema"] = parameter["schema"] | _NAME
    for path, answers in _STATES.items():
        for status, (said, kind) in answers.items():
            schema = {"type": "object" if kind == wire.JSON else "string"}
            document["paths"][path]["get"]["responses"][status] = {
                "description": said,
                "content": {kind: {"schema": schema}},
            }
    _lift_definitions(document, schemas)
    return document


def _complete_responses(responses: dict[str, Any]) -> None:
    for status, said in _FRONT.items():
        responses.setdefault(status, {"description": said})
    responses.setdefault("default", {"description": "A problem"})
    for status, response in responses.items():
        if status == "default" or status >= "400":
            response["content"] = _PROBLEM
            if status >= "400" and status not in _FRONT and (codes := _codes(status)):
                response["description"] = codes


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from (one for one in path.values() if isinstance(one, dict))


def _lift_definitions(part: Any, schemas: dict[str, Any]) -> None:
    """Definitions inside of schemas become components, and are referred to there."""
    if isinstance(part, list):
        for one in part:
            _lift_definitions(one, schemas)
        return
    if not isinstance(part, dict):
        return
    for name, schema in part.pop("$defs", {}).items():
        if name not in schemas:
            schemas[name] = schema
            _lift_definitions(schema, schemas)
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        part["$ref"] = reference.replace("#/$defs/", "#/components/schemas/")
    for one in list(part.values()):
        _lift_definitions(one, schemas)
