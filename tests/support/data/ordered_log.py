"""Orders records through real parts: an inbox shard, the log writer, one commit a batch.

It stands in for the order job where a test is about what writes and reads log files: same inbox
files, same log writer, same commits, but the caller says what is in a batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakequeue.clock import hour_of
from lakequeue.records import Stamp, Version
from queue_tables.delta.actions import Txn, commit_path
from queue_tables.delta.commit_json import parse
from queue_tables.delta.table import TableLog
from queue_tables.log.writer import PLAN, write_log_files
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX, LOG
from queue_tables.shards.shards import ShardWriter
from tests.support.data.rows import rows_of

START = 1_700_000_000_000_000
"""Stamp and time of the first batch, microseconds."""


@dataclass
class Sent:
    """A record to be ordered."""

    topic_id: str
    partition: int
    value: bytes
    key: bytes | None = None


@dataclass
class OrderedLog:
    """Appends batches to the log of `root`; remembers what each partition holds."""

    root: QueueRoot
    expected: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    batches: int = 0

    def __post_init__(self) -> None:
        self._shard = ShardWriter.create(self.root, "inbox", "builder")
        self._log = TableLog(self.root.store, LOG.name).open()

    def order(self, batch: Sequence[Sent], groups: int = 1, files: int = 1) -> Version:
        """Commit `batch`, out of `groups` inbox files (dealt out), into `files` log files."""
        dealt = [batch[g::groups] for g in range(groups) if batch[g::groups]]
        sent = [one for group in dealt for one in group]
        places = [place for group in dealt for place in self._append(group)]
        order = sorted(range(len(sent)), key=lambda i: (sent[i].topic_id, sent[i].partition))
        plan = []
        ends: dict[tuple[str, int], int] = {}
        for n, i in enumerate(order):
            key = sent[i].topic_id, sent[i].partition
            self.expected[key].append(sent[i].value)
            ends[key] = len(self.expected[key])
            plan.append(
                {
                    "file": places[i][0],
                    "row": places[i][1],
                    "topic": f"name-of-{key[0]}",
                    "topic_id": key[0],
                    "partition": key[1],
                    "offset": ends[key] - 1,
                    "ordered_at": START + self.batches,
                    "shard": self._shard.name,
                    "hour": hour_of(START + self.batches),
                    "out_file": str(n * files // len(order)),
                }
            )
        adds = write_log_files(self.root.uri, pa.Table.from_pylist(plan, schema=PLAN))
        self.batches += 1
        return self._log.commit(
            [*adds, *(Txn(f"offset/{t}/{p}", end) for (t, p), end in ends.items())],
            {"rows": len(plan)},
        )

    def _append(self, records: Sequence[Sent]) -> list[tuple[str, int]]:
        count = len(records)
        stamp = Stamp(START + self._shard.version)
        rows = rows_of(
            INBOX,
            {
                "topic_id": [one.topic_id for one in records],
                "partition": [one.partition for one in records],
                "key": [one.key for one in records],
                "value": [one.value for one in records],
                "key_format": [0] * count,
                "value_format": [0] * count,
                "headers": [[{"key": "n", "value": one.value[:4]}] for one in records],
                "timestamp": [stamp + i for i in range(count)],
                "bytes": [len(one.value) for one in records],
            },
            without=("hour", "stamp", "row"),
        )
        version = self._shard.append(rows, stamp)
        path = self._shard.path
        commit = parse(version, self.root.store.get(commit_path(path, version)))
        return [(f"{path}/{commit.adds[0].path}", row) for row in range(count)]
