"""The options of the source, read and checked: those of Spark's Kafka source. Pure.

Names do not depend on case. Every wrong value and every combination that the Kafka source refuses
is refused here, before anything is read: `InvalidRequest` names the option and the remedy.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name
from pyspark_lakequeue.columns import SCHEMA
from pyspark_lakequeue.source.positions import (
    EARLIEST,
    LATEST,
    AsOf,
    Assignment,
    AtOffsets,
    AtTime,
    AtTimes,
    Position,
    crossed,
    ending_option,
    parse_assignment,
    parse_offsets,
    parse_times,
    time_ms,
)

ROOT_OPTIONS = ("root", "lakequeue.root")
ANEW = "lakequeue.anew"
"""Set where a session is registered, by ourselves: each action on the frame is planned anew."""
_STRATEGIES = ("assign", "subscribe", "subscribePattern")
_READ = (
    *ROOT_OPTIONS,
    *_STRATEGIES,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "asOfTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "group.id",
    "pollTimeoutMs",
    # How the Kafka source talks to its brokers. There are none here, so nothing follows from them.
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
)
_AS_BYTES = "is not supported: {} are bytes; cast them in the query, as in CAST(value AS STRING)"
_REFUSED = {
    "kafka.auto.offset.reset": "is not supported: set startingOffsets to earliest or latest",
    "kafka.key.deserializer": _AS_BYTES.format("keys"),
    "kafka.value.deserializer": _AS_BYTES.format("values"),
    "kafka.enable.auto.commit": "is not supported: a stream keeps its position in its checkpoint",
    "kafka.interceptor.classes": "is not supported: an interceptor could change records",
}
"""Options that the Kafka source refuses, since whoever gives them expects something to follow."""
_OURS = {name.lower(): name for name in _READ}
COLUMNS = tuple(name for name in SCHEMA if name != "headers")
"""What is read unless `columns` says otherwise; `includeHeaders` adds `headers`."""
_STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_BATCH_ONLY = (*_ENDS, "asOfTimestamp")
_DEFAULT_DELAY_MS = 15 * 60_000
_DEFAULT_POLL_MS = 100
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions are read: exactly one of the three is set."""

    assign: Assignment | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader goes by. Times are milliseconds."""

    root: str
    subscription: Subscription
    starting: Position
    ending: Position
    latest_if_unmatched: bool
    """A starting time that no record matches means latest; else it is an error."""
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    min_partitions: int
    """0: not set."""
    max_records: int | None
    """Most records of one Spark partition."""
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    group: str | None
    poll_ms: int


def wanted_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that are read, in the order of the schema. Raises `InvalidRequest`.

    Spark does not tell a source written in Python which columns a query needs, so without the
    option `columns` all of them go through its worker.
    """
    options = Options(given, _OURS)
    headers = options.flag("includeHeaders", default=False)
    every = tuple(SCHEMA)
    text = options.get("columns")
    if text is None:
        return every if headers else COLUMNS
    by_name = {name.lower(): name for name in every}
    asked = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in asked if name.lower() not in by_name]
    if unknown or not asked:
        said = f"there is not a column {unknown[0]!r}" if unknown else "names no column"
        raise wrong("columns", said, f"some of {', '.join(every)}, separated by commas")
    chosen = {by_name[name.lower()] for name in asked} | ({"headers"} if headers else set())
    return tuple(name for name in every if name in chosen)


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a reader. Raises `InvalidRequest` naming the option."""
    options = Options(given, _OURS)
    options.refuse_unknown(_REFUSED)
    for name in _BATCH_ONLY if streaming else _STREAM_ONLY:
        if options.get(name) is None:
            continue
        if streaming:
            raise wrong(name, "is not valid in a streaming query", "it has no end: remove it")
        warnings.warn(f"option {name} is ignored in a batch query", stacklevel=2)
    group = options.get("group.id")
    least, most = options.count("minOffsetsPerTrigger"), options.count("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise wrong(
            "minOffsetsPerTrigger",
            f"{least} is higher than maxOffsetsPerTrigger {most}",
            "lower it",
        )
    starting = _starting(options, streaming)
    ending = LATEST if streaming else _ending(options)
    if (said := crossed(starting, ending)) is not None:
        raise wrong(ending_option(ending), said, "a batch ends where it starts, or later")
    return ReadOptions(
        root=root_of(options),
        subscription=_subscription(options),
        starting=starting,
        ending=ending,
        latest_if_unmatched=_strategy(options),
        max_offsets=most,
        min_offsets=least,
        max_delay_ms=_duration_ms(options.get("maxTriggerDelay")),
        min_partitions=options.count("minPartitions") or 0,
        max_records=options.count("maxRecordsPerPartition"),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        columns=wanted_columns(given),
        group=checked_name(group, "group") if group is not None else None,
        poll_ms=options.count("pollTimeoutMs") or _DEFAULT_POLL_MS,
    )


def root_of(options: Options) -> str:
    """Where the queue is. Raises `InvalidRequest` if no option says so."""
    for name in ROOT_OPTIONS:
        if root := options.get(name):
            return root
    raise wrong("root", "is missing", "the path or URI of the queue, as in `lakequeue up --root`")


def _subscription(options: Options) -> Subscription:
    given = [name for name in _STRATEGIES if options.get(name) is not None]
    if len(given) != 1:
        what = "none is given" if not given else f"{', '.join(given)} are given"
        raise InvalidRequest(
            f"exactly one of {', '.join(_STRATEGIES)} says what is read, {what}",
            hint='for example .option("subscribe", "orders")',
            field=given[1] if given else "subscribe",
        )
    text = options[given[0]].strip()
    if given[0] == "assign":
        return Subscription(assign=parse_assignment(text))
    if given[0] == "subscribe":
        topics = sorted({name.strip() for name in text.split(",") if name.strip()})
        if not topics:
            raise wrong("subscribe", f"{text!r} names no topic", "a list such as orders,payments")
        return Subscription(topics=tuple(checked_name(name, "topic") for name in topics))
    if not text:
        raise wrong("subscribePattern", "is empty", "a regular expression such as orders-.*")
    try:
        re.compile(text)
    except re.error as error:
        raise wrong("subscribePattern", f"{text!r}: {error}", "a regular expression") from error
    return Subscription(pattern=text)


def _starting(options: Options, streaming: bool) -> Position:
    """Of several the Kafka source takes the first of: time, times, offsets."""
    if (text := options.get("startingTimestamp")) is not None:
        return AtTime(time_ms("startingTimestamp", text))
    if (text := options.get("startingOffsetsByTimestamp")) is not None:
        return AtTimes(parse_times("startingOffsetsByTimestamp", text))
    text = options.get("startingOffsets")
    if text is None:
        return LATEST if streaming else EARLIEST
    position = _offsets("startingOffsets", text)
    if not streaming:
        _refuse(position, LATEST, "startingOffsets", "latest")
    return position


def _ending(options: Options) -> Position:
    if (text := options.get("asOfTimestamp")) is not None:
        # Not the Kafka source's, so there is no precedence that anybody expects.
        for name in _ENDS:
            if options.get(name) is not None:
                raise wrong(name, "is given with asOfTimestamp", "one of them says where it ends")
        return AsOf(time_ms("asOfTimestamp", text))
    if (text := options.get("endingTimestamp")) is not None:
        return AtTime(time_ms("endingTimestamp", text))
    if (text := options.get("endingOffsetsByTimestamp")) is not None:
        return AtTimes(parse_times("endingOffsetsByTimestamp", text))
    text = options.get("endingOffsets")
    position = LATEST if text is None else _offsets("endingOffsets", text)
    _refuse(position, EARLIEST, "endingOffsets", "earliest")
    return position


def _offsets(name: str, text: str) -> Position:
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return EARLIEST if word == "earliest" else LATEST
    return AtOffsets(parse_offsets(name, text))


def _refuse(position: Position, forbidden: Position, name: str, word: str) -> None:
    """A batch query begins at no end and ends at no beginning."""
    number = -1 if word == "latest" else -2
    found = position == forbidden or (
        isinstance(position, AtOffsets)
        and any(number in offsets.values() for offsets in position.offsets.values())
    )
    if found:
        raise wrong(
            name, f"can't be {word} ({number}) for batch queries", "give offsets, or a time"
        )


def _strategy(options: Options) -> bool:
    given = (options.get("startingOffsetsByTimestampStrategy") or "error").strip().lower()
    if given not in {"error", "latest"}:
        raise wrong("startingOffsetsByTimestampStrategy", repr(given), "error or latest")
    return given == "latest"


def _duration_ms(text: str | None) -> int:
    if text is None:
        return _DEFAULT_DELAY_MS
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|min|m|h|d)?\s*", text.lower())
    if match is None:
        raise wrong("maxTriggerDelay", f"{text!r}", "a duration such as 15m or 30s")
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]


class Options:
    """Options by name, whatever the case; of those that are known."""

    def __init__(self, given: Mapping[str, str], known: Mapping[str, str]) -> None:
        self._given = {name.lower(): (name, value) for name, value in given.items()}
        self._known = known

    def refuse_unknown(self, refused: Mapping[str, str]) -> None:
        """Warn of `kafka.…`; raise `InvalidRequest` for those in `refused`, and for unknown ones.

        `refused`: name in lower case → why.
        """
        for low, (name, _) in self._given.items():
            if low in self._known or low == ANEW:
                continue
            if low in refused:
                why, _, remedy = refused[low].partition(": ")
                raise wrong(name, why, remedy)
            if low.startswith("kafka."):
                warnings.warn(
                    f"option {name} is ignored: there is no Kafka broker here", stacklevel=4
                )
                continue
            near = difflib.get_close_matches(low, self._known, n=1)
            also = f"did you mean {self._known[near[0]]}? " if near else ""
            raise InvalidRequest(
                f"option {name!r} is not known",
                hint=f"{also}There are {', '.join(self._known.values())}",
                field=name,
            )

    def get(self, name: str) -> str | None:
        """The value, `None` if it is not given."""
        found = self._given.get(name.lower())
        return None if found is None else found[1]

    def __getitem__(self, name: str) -> str:
        return self._given[name.lower()][1]

    def count(self, name: str) -> int | None:
        """A whole number above 0."""
        text = self.get(name)
        if text is None:
            return None
        if not text.strip().isdigit() or int(text) <= 0:
            raise wrong(name, f"{text!r}", "a whole number above 0")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        """`true` or `false`."""
        text = self.get(name)
        if text is None:
            return default
        if text.strip().lower() not in {"true", "false"}:
            raise wrong(name, f"{text!r}", "true or false")
        return text.strip().lower() == "true"


def wrong(name: str, what: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"option {name}: {what}", hint=hint, field=name)
