"""Rows of a frame as rows of the inbox: topic, partition, id and limits of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.errors import InvalidRequest, TooLarge, UnknownTopic
from lakequeue.partitioner import partition_of
from lakequeue.records import Format
from lakequeue.wire import MAX_MESSAGE_ID_CHARS, MAX_RECORD_BYTES
from pyspark_lakequeue.sink.judged_values import judge
from pyspark_lakequeue.sink.targets import Target
from queue_tables.delta.columns import HEADERS
from queue_tables.schema.record_rules import faults_of, first_not_text
from queue_tables.schema.schemas import INBOX

_TEXT_COLUMNS = {"topic", "message_id", "key", "value", "headers"}
STICKY_BYTES = 16 << 10
"""Records without a key stay on one partition for so many bytes, then take the next."""
_TIME = pa.timestamp("us", tz="UTC")
_TEXT, _BYTES = int(Format.TEXT), int(Format.BYTES)
_ROWS = pa.schema([f for f in INBOX.file_arrow if f.name not in {"stamp", "row"}])


@dataclass(slots=True)
class Shaper:
    """Turns batches of one task into rows; keeps its place in between."""

    targets: Mapping[str, Target]
    topic: str | None
    """For every record."""
    arrival: int
    """Microseconds since 1970 UTC: time of records that have none of their own."""
    id_prefix: str | None
    """Message id of a record that has none: this and its place in the task. `None`: no id."""
    sticky: int = 0
    """The partition that records without a key begin with."""
    task: int = 0
    """Which it is, for messages."""
    done: int = 0
    """Records before."""
    _sticky_bytes: int = 0

    def shape(self, batch: pa.Table) -> pa.Table:
        """The rows, without stamp and row. Raises `InvalidRequest`, `UnknownTopic`, `TooLarge`."""
        count = batch.num_rows
        if not count:
            return _ROWS.empty_table()
        given = {name: batch.column(name).combine_chunks() for name in batch.column_names}
        self._check_text(given)
        given["topic"] = self._topics(given, count)
        given["message_id"] = self._ids(given.get("message_id"), count)
        value, value_format = _content(given["value"], count)
        given["headers"] = _headers(given.get("headers"), count)
        judged = judge(given, value, value_format, self._target, self.arrival)
        topics = judged["topic"].dictionary_encode()
        names, codes = topics.dictionary.to_pylist(), np.asarray(topics.indices.to_numpy())
        targets = [self._target(name) for name in names]
        key, key_format = _content(given.get("key"), count)
        headers = judged["headers"]
        sizes = _lengths(key) + _lengths(value) + _header_bytes(headers)
        self._check_sizes(sizes, codes, targets, names)
        timestamp = _or_else(given.get("timestamp"), pa.scalar(self.arrival, _TIME), count)
        columns = {
            "topic_id": pa.array([t.topic_id for t in targets], pa.string()).take(topics.indices),
            "partition": self._partitions(judged, key, sizes, codes, targets, names),
            "key": key,
            "value": value,
            "key_format": pa.repeat(pa.scalar(key_format, pa.int32()), count),
            "value_format": pa.repeat(pa.scalar(value_format, pa.int32()), count),
            "headers": headers,
            "timestamp": timestamp,
            "message_id": judged["message_id"],
            "expires_at": pa.array([self._expiry(t) for t in targets], _TIME).take(topics.indices),
            "request": pa.repeat(pa.scalar("0"), count),
            "atomic": pa.repeat(pa.scalar(False), count),
            "bytes": pa.array(sizes, pa.int32()),
        }
        self._check_rules(pa.table(columns))
        self.done += count
        arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in _ROWS]
        return pa.table(arrays, schema=_ROWS)

    def _check_text(self, given: Mapping[str, pa.Array]) -> None:
        """Before anything is done with it: nothing takes text that is none."""
        for name in _TEXT_COLUMNS & given.keys():
            found = first_not_text(given[name])
            if found is not None:
                row, why = found
                hint = f"CAST({name} AS BINARY) sends the bytes as they are"
                if name not in {"key", "value"}:
                    hint = "decode it with the encoding that it has, or filter such rows out"
                raise self._refused(row, f"{name} {why}", hint, name)

    def _check_rules(self, rows: pa.Table) -> None:
        """The rules that the order job goes by (`queue_tables.schema.record_rules`)."""
        for row, fault in sorted(faults_of(rows, INBOX).items())[:1]:
            raise self._refused(
                row, str(fault), "filter such rows out, or correct them", fault.column
            )

    def _refused(self, row: int, why: str, hint: str, field: str) -> InvalidRequest:
        at = self.done + row
        return InvalidRequest(f"row {at} of task {self.task}: {why}", hint=hint, field=field)

    def _topics(self, given: Mapping[str, pa.Array], count: int) -> pa.Array:
        if self.topic is not None:
            return pa.repeat(pa.scalar(self.topic), count)
        topics = given["topic"]
        if topics.null_count:
            raise InvalidRequest(
                "null topic present in the data",
                hint='.option("topic", …) gives all records one',
                field="topic",
            )
        return topics.cast(pa.string())

    def _target(self, name: str) -> Target:
        target = self.targets.get(name)
        if target is None:
            raise UnknownTopic(
                f"topic {name!r} does not exist", hint=f"`lakequeue topic create {name}`"
            )
        return target

    def _check_sizes(
        self,
        sizes: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int64],
        targets: list[Target],
        names: list[str],
    ) -> None:
        limits = np.array([t.max_record_bytes or MAX_RECORD_BYTES for t in targets], np.int64)
        large = np.flatnonzero(sizes > limits[codes])
        if len(large):
            at = int(large[0])
            raise TooLarge(
                f"a record of {sizes[at]} bytes for topic {names[codes[at]]!r}, the limit is"
                f" {limits[codes[at]]}",
                hint="raise max_record_bytes of the topic, or send less",
            )

    def _partitions(
        self,
        given: Mapping[str, pa.Array],
        key: pa.Array,
        sizes: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int64],
        targets: list[Target],
        names: list[str],
    ) -> pa.Array:
        counts = np.array([t.partitions for t in targets], np.int64)
        ends = self._sticky_bytes + np.cumsum(sizes)
        self._sticky_bytes = int(ends[-1]) if len(ends) else self._sticky_bytes
        out = (self.sticky + (ends - sizes) // STICKY_BYTES) % np.maximum(counts[codes], 1)
        keyed = ~np.asarray(key.is_null())
        for code, target in enumerate(targets):
            mine = np.flatnonzero(keyed & (codes == code))
            if len(mine):
                out[mine] = _by_key(key.take(pa.array(mine)), target)
        if "partition" in given:
            wanted = given["partition"]
            chosen = ~np.asarray(wanted.is_null())
            out[chosen] = pc.fill_null(wanted, 0).to_numpy(zero_copy_only=False)[chosen]
            wrong = np.flatnonzero((out < 0) | (out >= counts[codes]))
            if len(wrong):
                at = int(wrong[0])
                raise InvalidRequest(
                    f"partition {out[at]} of topic {names[codes[at]]!r}, which has"
                    f" {counts[codes[at]]}",
                    hint=f"0 to {counts[codes[at]] - 1}, or null to have it chosen",
                    field="partition",
                )
        return pa.array(out, pa.int32())

    def _ids(self, given: pa.Array | None, count: int) -> pa.Array:
        if given is not None:
            longest = pc.max(pc.utf8_length(given)).as_py() or 0
            if longest > MAX_MESSAGE_ID_CHARS:
                raise InvalidRequest(
                    f"a message_id of {longest} characters, the limit is {MAX_MESSAGE_ID_CHARS}",
                    hint="send a hash of it",
                    field="message_id",
                )
        if self.id_prefix is None:
            return pa.nulls(count, pa.string()) if given is None else given
        rows = pa.array(np.arange(self.done, self.done + count)).cast(pa.string())
        own = pc.binary_join_element_wise(pa.scalar(self.id_prefix), rows, "")
        return own if given is None else pc.coalesce(given, own)

    def _expiry(self, target: Target) -> int | None:
        return None if target.ttl_ms is None else self.arrival + target.ttl_ms * 1_000


def _content(given: pa.Array | None, count: int) -> tuple[pa.Array, int]:
    """Key or value as bytes, and how it was given."""
    if given is None:
        return pa.nulls(count, pa.binary()), _BYTES
    text = pa.types.is_string(given.type) or pa.types.is_large_string(given.type)
    return given.cast(pa.binary()), _TEXT if text else _BYTES


def _headers(given: pa.Array | None, count: int) -> pa.Array:
    """An empty list, not null, where a record has none."""
    empty = pa.scalar([], HEADERS)
    if given is None:
        return pa.repeat(empty, count)
    return _or_else(given.cast(HEADERS), empty, count)


def _or_else(given: pa.Array | None, default: pa.Scalar, count: int) -> pa.Array:
    if given is None:
        return pa.repeat(default, count)
    given = given.cast(default.type)
    return pc.if_else(given.is_valid(), given, default) if given.null_count else given


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0).to_numpy()).astype(np.int64)


def _header_bytes(headers: pa.Array) -> npt.NDArray[np.int64]:
    flat = headers.flatten()
    if not len(flat):
        return np.zeros(len(headers), np.int64)
    each = _lengths(flat.field("key")) + _lengths(flat.field("value"))
    ends = np.r_[0, np.cumsum(each)]
    edges = np.r_[0, np.cumsum(pc.list_value_length(headers).to_numpy())]
    return np.asarray(np.diff(ends[edges])).astype(np.int64)


def _by_key(keys: pa.Array, target: Target) -> npt.NDArray[np.int64]:
    encoded = keys.dictionary_encode()
    each = [
        partition_of(key, target.partitions, target.partitioner)
        for key in encoded.dictionary.to_pylist()
    ]
    chosen: npt.NDArray[np.int64] = np.array(each, np.int64)[encoded.indices.to_numpy()]
    return chosen
