"""Records as CloudEvents 1.0, the way out: structured, in batches, and binary. Pure.

Attributes are those of the headers `ce_<name>` and `content-type`, as `ingest/http/cloud_events.py`
stores them. A record that never was an event becomes one: of its topic, with its place as its id.
What acknowledges it goes along in extensions.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import orjson

ONE: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
TYPE: Final = "lakequeue.record"
"""Of a record that was no event."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ATTRIBUTE: Final = re.compile(r"ce_([a-z0-9]+)")
_TRACE: Final = frozenset({"traceparent", "tracestate"})
_OF_DELIVERY: Final = {
    "topic": "lakequeuetopic",
    "partition": "lakequeuepartition",
    "offset": "lakequeueoffset",
    "receipt": "lakequeuereceipt",
    "attempt": "lakequeueattempt",
    "deadline": "lakequeuedeadline",
    "group": "lakequeuegroup",
    "undecodable": "lakequeueundecodable",
}
"""Field of a record, and the extension that has it: as text, since an offset has 64 bits."""
_JSON_TYPE: Final = re.compile(r"[^/]+/(json|.*\+json)")


def wants(accept: str | None, media_type: str) -> bool:
    """Whether an `Accept` header names this media type."""
    if accept is None:
        return False
    return any(one.partition(";")[0].strip().lower() == media_type for one in accept.split(","))


def event_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The event that a record of the wire is, as the JSON format has it."""
    headers = _texts(record.get("headers") or ())
    said = {m[1]: text for name, text in headers.items() if (m := _ATTRIBUTE.fullmatch(name))}
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{record['partition']}-{record['offset']}",
        "source": f"/topics/{record['topic']}",
        "type": TYPE,
    }
    if (time := _time(record.get("timestamp"))) is not None:
        event["time"] = time
    if "id" in said and "source" in said:
        event |= said | {"specversion": "1.0"}
    else:
        event |= {name: text for name, text in said.items() if name not in event}
    event |= {name: text for name, text in headers.items() if name in _TRACE}
    beside = {new: record.get(old) for old, new in _OF_DELIVERY.items()}
    event |= {name: str(value) for name, value in beside.items() if value is not None}
    if isinstance(record.get("key"), str):
        event.setdefault("partitionkey", record["key"])
    return event | _data(record, headers.get("content-type"))


def batch_of(records: Iterable[Mapping[str, Any]]) -> bytes:
    """The body of a batch."""
    return orjson.dumps([event_of(record) for record in records])


def binary_of(record: Mapping[str, Any]) -> tuple[dict[str, str], bytes]:
    """Headers and body of the event in binary mode over HTTP."""
    event = event_of(record)
    kind, data = event.pop("datacontenttype", None), event.pop("data", None)
    if kind is not None and not (kind.isascii() and kind.isprintable()):
        kind = "application/octet-stream"
    encoded = event.pop("data_base64", None)
    headers = {f"ce-{name}": quote(str(text), safe=_PLAIN) for name, text in event.items()}
    if kind is not None:
        headers["content-type"] = kind
    if encoded is not None:
        return headers, base64.b64decode(encoded)
    if data is None:
        return headers, b""
    if isinstance(data, str) and not _is_json(kind):
        return headers, data.encode()
    return headers, orjson.dumps(data)


_PLAIN: Final = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')
"""What stands in a header as it is, by the HTTP binding; all else is percent-encoded."""


def _data(record: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    if record.get("value_base64") is not None:
        data = {"data_base64": record["value_base64"]}
        return {"datacontenttype": kind or "application/octet-stream", **data}
    value = record.get("value")
    if value is None:
        return {} if kind is None else {"datacontenttype": kind}
    default = "text/plain" if isinstance(value, str) else "application/json"
    if kind is not None and not isinstance(value, str) and not _is_json(kind):
        kind = None  # a header that does not fit the value, which is JSON
    return {"datacontenttype": kind or default, "data": value}


def _is_json(kind: str | None) -> bool:
    plain = "" if kind is None else kind.partition(";")[0].strip().lower()
    return _JSON_TYPE.fullmatch(plain) is not None


def _texts(headers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Headers that are text and can stand in one of HTTP; of several of a name, the first."""
    found: dict[str, str] = {}
    for one in headers:
        value = one.get("value")
        if isinstance(value, str) and value:
            found.setdefault(one["key"], value)
    return found


def _time(micros: Any) -> str | None:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    except (TypeError, OverflowError):
        return None
