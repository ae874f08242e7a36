"""What the job `stream_in` streams into a topic: its sources, and the columns of a record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakequeue.errors import InvalidRequest

Kind = Literal["delta", "kafka", "json"]

MAX_BYTES_PER_TRIGGER = str(128 << 20)
"""In digits: Spark's file source knows no units. A batch is ordered as one, and others wait."""
MAX_OFFSETS_PER_TRIGGER = "100000"
NOT_JSON_HEADER = "lakequeue-file"
"""On a record that went to the topic for what is no JSON: the file that it stood in."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One stream, as the command line says it. Expressions are Spark SQL."""

    kind: Kind
    source: str
    """delta: path or name of a table; kafka: host:port,…; json: folder or glob."""
    topic: str
    subscribe: Mapping[str, str] = field(default_factory=dict)
    """kafka: `subscribe`, `subscribePattern` or `assign`."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of the sink → expression, beside those that the source has by itself."""
    options: Mapping[str, str] = field(default_factory=dict)
    """For the reader; they go before those that are set here."""
    whole_files: bool = False
    """json: a file is one document, or an array of them; else each line is one."""
    bad_topic: str | None = None
    """json: where goes what is no JSON; None: the stream stops at it."""
    keep_partitions: bool = False
    """kafka: a record goes to the partition of the same number."""


def reader_options(feed: Feed) -> dict[str, str]:
    """Options of `spark.readStream`."""
    match feed.kind:
        case "delta":
            own = {"maxBytesPerTrigger": MAX_BYTES_PER_TRIGGER}
        case "kafka":
            own = {
                "kafka.bootstrap.servers": feed.source,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": MAX_OFFSETS_PER_TRIGGER,
                "includeHeaders": "true",
                **feed.subscribe,
            }
        case "json":
            own = {
                "maxBytesPerTrigger": MAX_BYTES_PER_TRIGGER,
                "wholetext": str(feed.whole_files).lower(),
            }
    # Names of options do not depend on case, and Spark's file source wants one limit, not two.
    given = {name.lower() for name in feed.options}
    if "maxfilespertrigger" in given:
        given.add("maxbytespertrigger")
    return {name: value for name, value in own.items() if name.lower() not in given} | dict(
        feed.options
    )


def record_columns(feed: Feed) -> dict[str, str]:
    """Column of the sink → expression over the source's frame."""
    match feed.kind:
        case "delta":
            own = {"value": "to_json(struct(*))"}
        case "kafka":
            own = {name: name for name in ("key", "value", "headers", "timestamp")}
            if feed.keep_partitions:
                own["partition"] = "`partition`"
        case "json":
            own = {"value": "value"} | _judged(feed)
    return own | dict(feed.columns)


def _judged(feed: Feed) -> dict[str, str]:
    """Where a line goes that is no JSON."""
    good = "try_parse_json(value) IS NOT NULL"
    if feed.bad_topic is None:
        # The message names the file: Spark shows it as the reason why the query ended.
        stop = "raise_error(concat('no JSON in ', _file, ': ', left(value, 200)))"
        return {"value": f"if({good}, value, {stop})"}
    header = f"array(struct('{NOT_JSON_HEADER}' AS key, cast(_file AS binary) AS value))"
    return {
        "topic": f"if({good}, {_text(feed.topic)}, {_text(feed.bad_topic)})",
        "headers": f"if({good}, null, {header})",
    }


def document_expression(feed: Feed) -> str:
    """json: the documents of a row, as an array of texts."""
    if not feed.whole_files:
        return "array(value)"
    elements = "from_json(value, 'array<string>')"
    return f"if(ltrim(value) LIKE '[%', coalesce({elements}, array(value)), array(value))"


def assignments(given: list[str], what: str) -> dict[str, str]:
    """`name=value` texts as a mapping. Raises `InvalidRequest`."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise InvalidRequest(f"{what} {name!r} is not name=value", hint=f"{what} NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
