"""What stands in `rejects`: who was refused and why, and what was put aside as it is.

Rows whose batch is not ordered yet are left out: they stand there before their batch is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.clock import Micros, hour_of
from lakequeue.records import Format
from lakequeue.wire.encoding import headers_to_json, key_value_to_json
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.files.parquet import read_data_file
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.reasons import Fate, with_fate
from queue_tables.schema.schemas import LOG, REJECTS

_LOST: Final = with_fate(Fate.PUT_ASIDE, Fate.REFUSED)


@dataclass(frozen=True, slots=True)
class RejectFilter:
    """Which rows; None: any."""

    topics: Collection[str] | None = None
    reasons: Collection[str] = _LOST
    since: Micros | None = None
    until: Micros | None = None

    def __contains__(self, row: Mapping[str, Any]) -> bool:
        at = row["rejected_at"]
        return (
            row["reason"] in self.reasons
            and (self.topics is None or row["topic"] in self.topics)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


def rejected(
    root: QueueRoot, wanted: RejectFilter, columns: Collection[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows that are wanted, oldest hour first; times as microseconds since 1970."""
    marks = WATERMARKS.read(LogMarks(root).read())
    files = load_snapshot(root.store, REJECTS.name).files.values()
    needed = None if columns is None else [*dict.fromkeys([*columns, *_JUDGED])]
    for add in sorted(files, key=lambda add: (add.partition_values["hour"] or "", add.path)):
        if not _may_hold(add.partition_values["hour"], wanted):
            continue
        rows = read_data_file(root.store, REJECTS.name, add.path, needed, add.deletion_vector)
        for name in ("timestamp", "deliver_at", "expires_at", "rejected_at"):
            if name in rows.column_names:
                at = rows.schema.get_field_index(name)
                rows = rows.set_column(at, name, rows[name].cast("int64"))
        for row in rows.to_pylist():
            if row["stamp"] <= marks.get(row["shard"], 0) and row in wanted:
                yield row


_JUDGED = ("topic", "reason", "rejected_at", "shard", "stamp")


def _may_hold(hour: str | None, wanted: RejectFilter) -> bool:
    if hour is None:
        return True
    return (wanted.since is None or hour >= hour_of(wanted.since)) and (
        wanted.until is None or hour <= hour_of(wanted.until)
    )


def exported(row: Mapping[str, Any]) -> bytes:
    """One line of JSON: why, where from, and the record as it can be sent by HTTP again.

    Bytes are base64; so is text, or JSON, that is none.
    """
    said = {name: row[name] for name in _SAID if row.get(name) is not None}
    return orjson.dumps(said | {"record": record_of(row)}) + b"\n"


def record_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The record in the form of the wire, for `orjson.dumps`."""
    record = {
        **key_value_to_json("key", row["key"], format_of(row, "key")),
        **key_value_to_json("value", row["value"], format_of(row, "value")),
        "headers": headers_to_json(headers_of(row)),
    }
    for name in ("partition", "timestamp", "message_id", "deliver_at"):
        if row[name] is not None:
            record[name] = row[name]
    return record


def headers_of(row: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    """The headers, in order."""
    return [(h["key"], h["value"]) for h in row["headers"] or [] if h]


def redrive_id_of(row: Mapping[str, Any]) -> str:
    """Message id of what is sent of a rejected row: the same however often it is sent."""
    return f"{_REDRIVEN}{row['shard']}:{row['stamp']}:{row['row']}"


_REDRIVEN: Final = "rejects:"


def redriven_since(root: QueueRoot, since: Micros) -> set[str]:
    """The ids (`redrive_id_of`) that were ordered since then, as far as `log` has them still."""
    found: set[str] = set()
    for add in load_snapshot(root.store, LOG.name).files.values():
        hour = add.partition_values["hour"]
        if hour is not None and hour < hour_of(since):
            continue
        rows = read_data_file(root.store, LOG.name, add.path, ["message_id"], add.deletion_vector)
        ids = rows["message_id"].combine_chunks().view(pa.binary())
        mine = ids.filter(pc.starts_with(ids, _REDRIVEN.encode()))
        found.update(text.decode(errors="replace") for text in mine.to_pylist())
    return found


_SAID = (
    "reason", "detail", "topic", "topic_id", "rejected_at", "shard", "stamp", "row", "producer_id",
    "producer_epoch", "sequence", "expires_at", "original_partition", "original_offset",
)  # fmt: skip


def format_of(row: Mapping[str, Any], name: Literal["key", "value"]) -> Format:
    """How the key or value is written: as it says of itself, if it is that."""
    data, said = row[name], row[f"{name}_format"]
    if data is None or said not in {Format.TEXT, Format.JSON}:
        return Format.BYTES
    try:
        data.decode()
        if said == Format.JSON:
            orjson.loads(data)
    except ValueError:
        return Format.BYTES
    return Format(said)


def counts(root: QueueRoot, wanted: RejectFilter) -> Counter[tuple[str | None, str]]:
    """How many of each (topic, reason)."""
    return Counter((row["topic"], row["reason"]) for row in rejected(root, wanted, ()))
