"""What the job `stream_in` streams into a topic: its sources, and the columns of a record. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from jobs.feeds.ended import NO_JSON
from lakequeue.errors import InvalidRequest

Kind = Literal["delta", "kafka", "json"]

MAX_BYTES_PER_TRIGGER = str(128 << 20)
"""In digits: Spark's file source knows no units. A batch is ordered as one, and others wait."""
MAX_OFFSETS_PER_TRIGGER = "100000"
FILE_HEADER = "lakequeue-file"
"""On a record of a file that went to the topic for refused ones: the file that it stood in."""


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
    """Where goes what the topic refuses, by its schema or its limits, and what is no JSON; None:
    the stream stops at it."""
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


_IS_JSON = (
    "json_array_length(concat('[', value, ']')) = 1"
    " AND try_parse_json(concat('{\"a\":', value, '}')) IS NOT NULL"
)
"""Of a text alone Spark reads the beginning, whatever follows; in these it cannot."""


def _judged(feed: Feed) -> dict[str, str]:
    """Where a line goes that is no JSON."""
    good = _IS_JSON
    if feed.bad_topic is None:
        # The message names the file: Spark shows it as the reason why the query ended.
        stop = f"raise_error(concat('{NO_JSON}', _file, ': ', left(value, 200)))"
        return {"value": f"if({good}, value, {stop})"}
    # The sink takes these two columns for what they say: see `pyspark_lakequeue.sink.bad_rows`.
    return {
        "_refused": f"if({good}, null, 'no JSON')",
        "_refused_headers": (
            f"array(struct('{FILE_HEADER}' AS key, cast(_file AS binary) AS value))"
        ),
    }


def documents_of(text: str) -> list[str]:
    """The documents of a whole file, as they stand there: the elements of an array, or the one.

    What is not JSON as a whole comes back as one text, which is none either. Not by Spark's
    `from_json`, which writes numbers anew and takes no notice of what follows an array.
    """
    text = text.removeprefix("\ufeff")
    begin = _past_space(text, 0)
    try:
        if not text.startswith("[", begin):
            _, end = _DECODER.raw_decode(text, begin)
            return [text[begin:end]] if _past_space(text, end) == len(text) else [text]
        return list(_elements(text, _past_space(text, begin + 1)))
    except (ValueError, RecursionError):
        return [text] if text[begin:] else []


def _elements(text: str, at: int) -> Iterator[str]:
    """From the first element of an array on to the end of the text. Raises `ValueError`."""
    more = not text.startswith("]", at)
    end = at
    while more:
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        end = _past_space(text, end)
        more = text.startswith(",", end)
        at = _past_space(text, end + 1)
    if not text.startswith("]", end) or _past_space(text, end + 1) != len(text):
        raise ValueError("something else than the end of the array")


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def assignments(given: list[str], what: str) -> dict[str, str]:
    """`name=value` texts as a mapping. Raises `InvalidRequest`."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise InvalidRequest(f"{what} {name!r} is not name=value", hint=f"{what} NAME=VALUE")
    return {name: value for name, _, value in pairs}
