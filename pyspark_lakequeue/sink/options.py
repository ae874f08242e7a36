"""The options and columns of the sink, checked as Spark's Kafka sink checks them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name
from lakequeue.wire.limits import MAX_SPAN_MS
from pyspark_lakequeue.source.options import ROOT_OPTIONS, Options, root_of, wrong

_WRITE = (
    *ROOT_OPTIONS,
    "topic",
    "badTopic",
    "wait",
    "timeoutMs",
    "txnAppId",
    "txnVersion",
    # Spark's own, and those of the Kafka sink from which nothing follows here.
    "checkpointLocation",
    "queryName",
    "path",
    "includeHeaders",
)
_AS_BYTES = "is not supported: {} are stored as bytes; cast the column to STRING or BINARY"
_REFUSED = {
    "kafka.key.serializer": _AS_BYTES.format("keys"),
    "kafka.value.serializer": _AS_BYTES.format("values"),
}
"""Options that the Kafka sink refuses."""
_TIMEOUT_MS = "30000"
_KNOWN = {name.lower(): name for name in _WRITE}
_COLUMNS = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "message_id": ("string",),
    "timestamp": ("timestamp",),
    "_refused": ("string",),
    "_refused_headers": ("array<struct<key:string,value:binary>>",),
}
"""What a frame may have; other columns are skipped, as the Kafka sink does."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a writer goes by."""

    root: str
    topic: str | None
    """For every record; goes before the column."""
    txn: tuple[str, int] | None
    """Application and version: a write that was committed under it already adds nothing."""
    bad_topic: str | None = None
    """Where rows go that their topic refuses; None: they end the write."""
    wait_s: float = 0.0
    """Of a batch write: how long it waits until its rows are ordered, and so can be read."""


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check the options of a writer. Raises `InvalidRequest` naming the option."""
    options = Options(given, _KNOWN)
    options.refuse_unknown(_REFUSED)
    topic = _topic(options, "topic")
    app, version = options.get("txnAppId"), options.get("txnVersion")
    if (app is None) != (version is None):
        raise wrong("txnAppId", "and txnVersion go together", "give both, or none")
    txn = None
    if app is not None and version is not None:
        if not version.isdigit():
            raise wrong("txnVersion", f"{version!r}", "a whole number that rises, 0 at least")
        txn = (app, int(version))
    return SinkOptions(root_of(options), topic, txn, _topic(options, "badTopic"), _wait_s(options))


def _topic(options: Options, name: str) -> str | None:
    given = options.get(name)
    return None if given is None else checked_name(given.strip(), "topic")


def _wait_s(options: Options) -> float:
    wait, timeout = options.get("wait") or "ordered", options.get("timeoutMs") or _TIMEOUT_MS
    if wait not in {"ordered", "committed"}:
        raise wrong("wait", f"{wait!r}", "ordered: until the rows can be read; committed: durable")
    if not timeout.isascii() or not timeout.isdigit() or not 1 <= int(timeout) <= MAX_SPAN_MS:
        raise wrong("timeoutMs", f"{timeout!r}", "whole milliseconds, 1 at least")
    return int(timeout) / 1_000 if wait == "ordered" else 0.0


def check_columns(found: Mapping[str, str], options: SinkOptions) -> None:
    """Raise `InvalidRequest` for a column that is missing or has a wrong type.

    `found`: name → type, as Spark's `simpleString` has it.
    """
    if "value" not in found:
        raise InvalidRequest(
            "required column 'value' not found",
            hint="name the column that holds the records `value`, for example to_json(struct(*))",
            field="value",
        )
    if "topic" not in found and options.topic is None:
        raise InvalidRequest(
            "there is neither an option nor a column 'topic'",
            hint='.option("topic", "orders"), or a column with the topic of each record',
            field="topic",
        )
    for name, types in _COLUMNS.items():
        if name in found and found[name].lower() not in types:
            raise InvalidRequest(
                f"column {name!r} is {found[name]}",
                hint=f"it must be {' or '.join(types)}",
                field=name,
            )
