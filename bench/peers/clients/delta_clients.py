"""Delta tables without a queue: a writer by delta-rs, and a reader of each commit as it comes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake

from bench.peers.clients.interface import Acked, BatchSender, Place

_LOOK_EVERY_S = 0.002


class DeltaSender(BatchSender):
    """All that waits is one append; a checkpoint every 100 commits."""

    def __init__(self, at: Place, acked: Acked) -> None:
        self._path = at["table"]
        self._schema = pa.schema([("partition", pa.int32()), ("value", pa.binary())])
        if not DeltaTable.is_deltatable(self._path):
            DeltaTable.create(self._path, self._schema)
        self._table = DeltaTable(self._path)
        super().__init__(self._append, acked, most=50_000)

    def _append(self, batch: list[tuple[int, bytes]]) -> None:
        partitions, values = zip(*batch, strict=True)
        rows = pa.table(
            [pa.array(partitions, pa.int32()), pa.array(values, pa.binary())], schema=self._schema
        )
        hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        write_deltalake(self._table, rows, mode="append", post_commithook_properties=hooks)
        if self._table.version() % 100 == 0:
            self._table.create_checkpoint()


class CommitReader:
    """Looks for the next commit of a table every 2 ms, and reads the values of its files.

    When it has them, any engine that opens the table has them too: this is *visible to SQL*.
    """

    def __init__(self, at: Place) -> None:
        self._table = Path(at["table"])
        self._next = 0

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """The values of all files of the next commits."""
        until, values = time.monotonic() + seconds, list[bytes]()
        while not values and time.monotonic() < until:
            while (found := self._commit()) is not None:
                values += found
                if len(values) >= most:
                    break
            if not values:
                time.sleep(_LOOK_EVERY_S)
        return values

    def _commit(self) -> list[bytes] | None:
        path = self._table / "_delta_log" / f"{self._next:020d}.json"
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            return None
        self._next += 1
        values: list[bytes] = []
        for line in lines:
            added = json.loads(line).get("add")
            if added is not None and added["dataChange"]:
                file = self._table / unquote(added["path"])
                values += pq.read_table(file, columns=["value"])["value"].to_pylist()
        return values

    def settle(self) -> None:
        """A reader of a table settles nothing."""

    def close(self) -> None:
        """Nothing is open."""
