"""CloudEvents 1.0 over HTTP as records: structured, batched and binary. Pure.

Attributes become headers `ce_<name>` and `content-type`, the extension `partitionkey` becomes the
key: the binary mode of the CloudEvents Kafka binding, so that consumers written for it find what
they expect. `source` and `id` together are the message id: an event sent twice is ordered once.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import orjson

from lakequeue import wire
from lakequeue.errors import InvalidRequest, MalformedBody
from lakequeue.tracing.context import TRACEPARENT, TRACESTATE, context_of
from lakequeue.wire.cloud_events import ONE
from queue_rules.produce.exact_json import loads
from queue_rules.produce.record_count import has_more
from queue_rules.produce.validation import Limits, at_record, too_many

_NAME = re.compile(r"[a-z0-9]+")
_DATA = frozenset({"data", "data_base64"})
_REQUIRED = ("specversion", "id", "source", "type")
_JSON_TYPE = re.compile(r"[^/]+/(json|.*\+json)")


def records_of_events(body: bytes, limits: Limits, *, batch: bool) -> list[Any]:
    """The records, not looked at yet. Raises `MalformedBody`, `InvalidRequest`, `TooLarge`."""
    if batch and has_more(body, limits.max_records, at=1):
        raise too_many(limits.max_records + 1, limits.max_records)
    try:
        whole = loads(body)
    except orjson.JSONDecodeError as e:
        raise MalformedBody(f"the body is not JSON: {e}", hint=f"see {ONE}", stored="no") from None
    if batch and type(whole) is not list:
        raise MalformedBody("a batch is an array of events", hint=f"one: {ONE}", stored="no")
    events = whole if batch else [whole]
    if len(events) > limits.max_records:
        raise too_many(len(events), limits.max_records)
    records = []
    for i, event in enumerate(events):
        try:
            records.append(_record_of(event))
        except InvalidRequest as e:
            raise at_record(e, i) from None
    return records


def attributes_of(headers: Iterable[tuple[str, str]]) -> dict[str, str] | None:
    """Attributes of an event in binary mode; None: the request is not one."""
    found = {name.lower(): value for name, value in headers}
    if "ce-specversion" not in found:
        return None
    attributes = {
        name.removeprefix("ce-"): unquote(value)
        for name, value in found.items()
        if name.startswith("ce-")
    }
    kind = found.get("content-type")
    return attributes | ({} if kind is None else {"datacontenttype": kind})


def record_of_binary(attributes: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The record of an event in binary mode. Raises `MalformedBody`, `InvalidRequest`."""
    event: dict[str, Any] = dict(attributes)
    kind = event.get("datacontenttype", "").partition(";")[0].strip().lower()
    if not body:
        return _record_of(event)
    try:
        if _JSON_TYPE.fullmatch(kind):
            event["data"] = loads(body)
        elif kind.startswith("text/"):
            event["data"] = body.decode()
        else:
            event["data_base64"] = base64.b64encode(body).decode()
    except ValueError as e:
        raise MalformedBody(f"the data is not {kind}: {e}", hint="see ce-*", stored="no") from None
    return _record_of(event)


def _record_of(event: Any) -> dict[str, Any]:
    if type(event) is not dict:
        raise InvalidRequest("an event must be an object", hint=f"see {ONE}")
    for name in _REQUIRED:
        if type(event.get(name)) is not str or not event[name]:
            raise InvalidRequest(f"{name} is missing", hint="text, not empty", field=name)
    if event["specversion"] != "1.0":
        raise InvalidRequest(
            f"specversion {event['specversion'][:20]!r} is not known",
            hint="1.0",
            field="specversion",
        )
    if event.get("data") is not None and event.get("data_base64") is not None:
        raise InvalidRequest("data and data_base64 are both given", hint="one", field="data")
    headers = [_header(n, v) for n, v in event.items() if n not in _DATA and v is not None]
    headers += _trace(event)
    record: dict[str, Any] = {"headers": headers, "message_id": _id(event["source"], event["id"])}
    if event.get("data_base64") is not None:
        record["value_base64"] = event["data_base64"]
    else:
        record["value"] = event.get("data")
    if event.get("partitionkey") is not None:
        record["key"] = _text("partitionkey", event["partitionkey"])
    if event.get("time") is not None:
        record["timestamp"] = _text("time", event["time"])
    return record


def _header(name: str, value: Any) -> dict[str, str]:
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name[:50]!r} is not the name of an attribute",
            hint="lower-case letters and digits",
            field=name[:50],
        )
    header = "content-type" if name == "datacontenttype" else f"ce_{name}"
    return {"key": header, "value": _text(name, value)}


def _trace(event: Mapping[str, Any]) -> list[dict[str, str]]:
    """The extension for distributed tracing, as every other record has it; what is wrong is left
    out."""
    parent, state = (event.get(name) for name in (TRACEPARENT, TRACESTATE))
    if type(parent) is not str:
        return []
    trace = context_of(parent, state if type(state) is str else None)
    named = {} if trace is None else trace.of_request()
    return [{"key": name, "value": value} for name, value in named.items()]


def _text(name: str, value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    raise InvalidRequest(
        f"{name[:50]} is a {type(value).__name__}", hint="text, a number or a boolean", field=name
    )


def _id(source: str, event_id: str) -> str:
    plain = f"{source}#{event_id}"
    if len(plain) <= wire.MAX_MESSAGE_ID_CHARS:
        return plain
    return hashlib.sha256(plain.encode()).hexdigest()
