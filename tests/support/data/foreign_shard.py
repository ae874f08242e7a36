"""A shard that a foreign process writes: any rows, in any file, under any stamp."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakequeue.clock import hour_of
from lakequeue.records import ShardName
from queue_tables.delta.actions import Action, Add, Txn
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import GROUP_TXN, STAMP_TXN
from queue_tables.schema.schemas import INBOX, TABLES
from queue_tables.shards.shards import shard_path
from tests.support.data.hostile_rows import Hostile, sound_rows


class ForeignShard:
    """Commits what it is given; nothing is looked at."""

    def __init__(self, root: QueueRoot, node: str = "foreign", kind: ShardKind = "inbox") -> None:
        self.root = root
        self.name = ShardName(f"{node}-0")
        self.path = shard_path(kind, self.name)
        self._declared = TABLES[kind]
        create_table(root.store, self.path, self._declared)
        self.table = TableLog(root.store, self.path, keep_files=False).open()

    def commit(self, stamp: int, rows: pa.Table) -> Add:
        """One group in one file; `rows` as the shard's table declares them, as they are."""
        hour = {"hour": hour_of(stamp)}
        file_rows = rows.drop_columns(["hour"]) if "hour" in rows.column_names else rows
        add = write_data_file(self.root.store, self.path, file_rows, hour, self._declared)
        return self.commit_file(stamp, add, rows.num_rows)

    def commit_file(self, stamp: int, add: Add, rows: int) -> Add:
        """The same for a file that is there, or is not."""
        number = self.table.txns.get(GROUP_TXN, 0) + 1
        actions: list[Action] = [Txn(GROUP_TXN, number), Txn(STAMP_TXN, stamp), add]
        self.table.commit(actions, {"stamp": stamp, "rows": rows, "bytes": 10 * rows})
        return add

    def file_of(self, add: Add) -> str:
        """Where the file is, relative to the root."""
        return f"{self.path}/{add.path}"


def records(topic_id: str, stamp: int, values: list[bytes], **more: Any) -> pa.Table:
    """Sound rows of `INBOX`, of one group."""
    parts = [
        sound_rows(
            INBOX,
            1,
            {
                "topic_id": topic_id,
                "value": value,
                "stamp": stamp,
                "row": row,
                "message_id": f"{value.decode(errors='replace')}@{stamp}",
                **more,
            },
        )
        for row, value in enumerate(values)
    ]
    return pa.concat_tables(parts)


def between_good_ones(topic_id: str, stamp: int, hostile: Hostile) -> pa.Table:
    """A group of three, of which the second is hostile, in a request of its own."""
    good = records(topic_id, stamp, [b"good", b"?", b"good"])
    ids = pa.array([f"{row}@{stamp}" for row in range(3)], pa.string())
    good = good.set_column(good.schema.get_field_index("message_id"), "message_id", ids)
    place: dict[str, Any] = {
        "topic_id": topic_id,
        "stamp": stamp,
        "row": 1,
        "message_id": f"h@{stamp}",
        "request": "h",
    }
    bad = hostile.row
    for name, value in place.items():
        if name != hostile.column:
            at = bad.schema.get_field_index(name)
            bad = bad.set_column(at, INBOX.arrow.field(at), pa.array([value], bad[name].type))
    return pa.concat_tables([good.slice(0, 1), bad, good.slice(2)])
