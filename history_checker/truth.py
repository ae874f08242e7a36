"""The truth of a queue, read from its tables: what a history ends with.

Records are read by delta-rs, and again by the service's own reader; the logs of the tables file by
file, as the open format has them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from history_checker.history import Event
from lakequeue.records import Offset, Partition
from queue_tables.groups.state import read_group_state
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore

_PAGE = 10_000
_TABLES = ("log", "rejects", "inbox/*", "journal/*")
_NUMBERED = ("order", "group", "fold")
"""App ids whose version numbers what a commit brings."""


def final_read(root: Path | str, topic: str, named_by: str = "message_id") -> list[Event]:
    """A `read` event for every record of `topic` in `log`, called by its message id.

    `named_by="value"`: by what it holds, for records that were sent without an id.
    """
    folder = Path(root) / "log"
    log = DeltaTable(str(folder)).to_pyarrow_dataset()
    versions = _brought(folder)
    columns = ["partition", "offset", "topic_id", named_by]
    now = time.monotonic_ns()
    return [
        Event(
            "read",
            t_ns=now,
            proc="delta-rs",
            topic=topic,
            topic_id=row["topic_id"],
            part=row["partition"],
            offset=row["offset"],
            value=_text(row[named_by]),
            delta_version=versions.get(Path(fragment.path).name, -1),
        )
        for fragment in log.get_fragments()
        for row in fragment.to_table(columns=columns, filter=ds.field("topic") == topic).to_pylist()
    ]


def service_read(root: Path | str, topic: str) -> list[Event]:
    """The same by the reader that the services use."""
    opened = QueueRoot.open(str(root), create=False)
    reader, now = LogReader(opened), time.monotonic_ns()
    found: list[Event] = []
    for known in (t for t in TopicStore(opened).list() if t.topic == topic):
        for number in range(known.partitions):
            at, end = 0, reader.end_offset(known.topic_id, Partition(number))
            while at < end:
                rows = reader.read_range(known.topic_id, Partition(number), Offset(at), _PAGE)
                found += [
                    Event(
                        "read",
                        t_ns=now,
                        proc="service",
                        topic=topic,
                        topic_id=known.topic_id,
                        part=number,
                        offset=row["offset"],
                        value=row["message_id"],
                    )
                    for row in rows.select(["offset", "message_id"]).to_pylist()
                ]
                at += rows.num_rows
    return found


def positions(root: Path | str, group: str) -> list[Event]:
    """A `position` event for every partition of which the group's tables know one."""
    opened = QueueRoot.open(str(root), create=False)
    names = {t.topic_id: t.topic for t in TopicStore(opened).list()}
    return [
        Event(
            "position",
            t_ns=time.monotonic_ns(),
            topic=names.get(key.topic_id, key.topic_id),
            part=key.partition,
            offset=state.committed_offset,
            group=group,
        )
        for key, state in read_group_state(opened, group).states.items()
        if state.committed_offset is not None
    ]


def commits(root: Path | str) -> list[Event]:
    """A `commit` event for every version that still has its file, of the tables of rows that stay.

    Not of `topics` and `group_offsets`, which hold a state and are written over.
    """
    folder = Path(root)
    return [
        event
        for pattern in _TABLES
        for log in sorted(folder.glob(f"{pattern}/_delta_log"))
        for event in _commits_of(log, str(log.parent.relative_to(folder)))
    ]


def truth(root: Path | str, topics: Iterable[str], groups: Iterable[str]) -> list[Event]:
    """Everything that the tables say at the end of a run."""
    found = commits(root)
    for group in groups:
        found += positions(root, group)
    for topic in topics:
        found += [*final_read(root, topic), *service_read(root, topic)]
    return found


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _actions(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in file.read_bytes().splitlines():
        yield from json.loads(line).items()


def _commit_files(log: Path) -> list[Path]:
    return sorted(f for f in log.glob("*.json") if f.stem.isdigit())


def _brought(table: Path) -> dict[str, int]:
    """The name of each data file that brought new records, and the version that it came with."""
    return {
        Path(body["path"]).name: int(file.stem)
        for file in _commit_files(table / "_delta_log")
        for kind, body in _actions(file)
        if kind == "add" and body["dataChange"]
    }


def _commits_of(log: Path, table: str) -> Iterator[Event]:
    rows_of: dict[str, int] = {}
    for file in _commit_files(log):
        added = removed = taken = 0
        number: str | None = None
        for kind, body in _actions(file):
            if kind == "add":
                rows_of[body["path"]] = int(
                    json.loads(body.get("stats") or "{}").get("numRecords", 0)
                )
                added += rows_of[body["path"]] if body["dataChange"] else 0
            elif kind == "remove" and body.get("dataChange"):
                removed += 1
                taken += rows_of.get(body["path"], added)
            elif kind == "txn" and body["appId"] in _NUMBERED:
                number = f"{body['appId']} {body['version']}"
        yield Event(
            "commit",
            topic=table,
            delta_version=int(file.stem),
            # A rewrite (an erasure's, say) brings no more rows than it takes: none are new.
            added=max(0, added - taken),
            removed=removed,
            batch=number,
        )
