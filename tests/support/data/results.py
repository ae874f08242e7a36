"""A result table as delta-rs writes it, with the marks of its commits."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import deltalake
import pyarrow as pa

from lakequeue.results.mark import marks, read_mark
from lakequeue.results.restores import Restores


class Result:
    """A result table, and what a consumer remembers of it."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder / "result")
        deltalake.DeltaTable.create(self.uri, pa.schema([pa.field("n", pa.int64())]))
        self.restores = Restores()

    def write(self, name: str, next_offset: int, table: deltalake.DeltaTable | None = None) -> int:
        """A commit of `name`, from a handle as it is or a new one; the version after it."""
        table = table or deltalake.DeltaTable(self.uri)
        deltalake.write_deltalake(
            table,
            pa.table({"n": [next_offset]}),
            mode="append",
            commit_properties=deltalake.CommitProperties(
                app_transactions=marks(name, next_offset, table.version())
            ),
        )
        return deltalake.DeltaTable(self.uri).version()

    def restore(self, to: int | datetime) -> None:
        """With delta-rs."""
        deltalake.DeltaTable(self.uri).restore(to)

    def done(self, name: str) -> int | None:
        """By what is remembered, which must say the same as a new consumer finds."""
        table = deltalake.DeltaTable(self.uri)
        mark = read_mark(table, name, self.restores)
        assert mark == read_mark(table, name, Restores())
        return mark
