"""What other engines do to the queue's tables: statements of Spark, calls of delta-rs, polars.

As a program (`… --root DIR --table NAME --call NAME`) it does that again and again, until its input
is closed. Each time it takes the guard off, which the queue's next commit puts back. In the end it
prints how often it got through.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import polars
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from queue_tables.delta.actions import CommitInfo, Protocol, commit_path, encode
from queue_tables.delta.commit_json import parse
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.root import QueueRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL: Mapping[str, str] = {
    "OPTIMIZE": "OPTIMIZE {t}",
    "DELETE": "DELETE FROM {t} WHERE true",
    "UPDATE": "UPDATE {t} SET {c} = {c}",
    "MERGE": "MERGE INTO {t} t USING (SELECT 1 AS one) s ON false WHEN NOT MATCHED THEN"
    " INSERT ({c}) VALUES (NULL)",
    "INSERT": "INSERT INTO {t} SELECT * FROM {t}",
    "ADD COLUMNS": "ALTER TABLE {t} ADD COLUMNS (note STRING)",
    "COMMENT": "COMMENT ON TABLE {t} IS 'ours'",
    "COLUMN COMMENT": "ALTER TABLE {t} ALTER COLUMN {c} COMMENT 'ours'",
    "SET TBLPROPERTIES": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "DELETION VECTORS": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)",
    "COLUMN MAPPING": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "IN-COMMIT TIMESTAMPS": "ALTER TABLE {t} SET TBLPROPERTIES"
    " ('delta.enableInCommitTimestamps' = true)",
    "ROW TRACKING": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = true)",
    "TYPE WIDENING": "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = true)",
    "ADD CONSTRAINT": "ALTER TABLE {t} ADD CONSTRAINT some CHECK ({c} IS NULL OR {c} IS NOT NULL)",
    "STRUCT STATISTICS": "ALTER TABLE {t} SET TBLPROPERTIES"
    " ('delta.checkpoint.writeStatsAsStruct' = true)",
    "DROP FEATURE": "ALTER TABLE {t} DROP FEATURE lakequeue",
    "RESTORE": "RESTORE TABLE {t} TO VERSION AS OF 0",
    "VACUUM": "VACUUM {t} RETAIN 168 HOURS",
    "TRUNCATE": "TRUNCATE TABLE {t}",
}
"""Name of a statement -> its text; `{t}` the table, `{c}` a column of it."""


def run_sql(spark: SparkSession, name: str, folder: str, column: str) -> None:
    """Run a statement on the table in `folder`; raises what Spark raises."""
    spark.sql(SQL[name].format(t=f"delta.`{folder}`", c=f"`{column}`")).collect()


def _append(folder: str) -> None:
    table = DeltaTable(folder)
    write_deltalake(table, table.to_pyarrow_table(), mode="append")


def _overwrite(folder: str) -> None:
    table = DeltaTable(folder)
    write_deltalake(table, table.to_pyarrow_table(), mode="overwrite")


def _polars_append(folder: str) -> None:
    polars.read_delta(folder).write_delta(folder, mode="append")


def _z_order(folder: str) -> None:
    table = DeltaTable(folder)
    partitions = table.metadata().partition_columns
    column = next(f.name for f in table.schema().fields if f.name not in partitions)
    table.optimize.z_order([column])


def _restore(folder: str) -> None:
    """To the second version; over a guard that was taken off since, delta-rs panics."""
    try:
        DeltaTable(folder).restore(1)
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":
            raise
        raise RuntimeError(str(panic)) from panic


CALLS: Mapping[str, Callable[[str], object]] = {
    "delta-rs append": _append,
    "delta-rs overwrite": _overwrite,
    "delta-rs delete": lambda folder: DeltaTable(folder).delete(),
    "delta-rs compact": lambda folder: DeltaTable(folder).optimize.compact(),
    "delta-rs z_order": _z_order,
    "delta-rs restore": _restore,
    "delta-rs vacuum": lambda folder: DeltaTable(folder).vacuum(
        0, dry_run=False, enforce_retention_duration=False
    ),
    "delta-rs properties": lambda folder: DeltaTable(folder).alter.set_table_properties(
        {"delta.appendOnly": "true"}
    ),
    "polars append": _polars_append,
}
"""Name of a call -> the call, which takes the table's folder."""


def unguarded(root: QueueRoot, table: str) -> str:
    """Let every engine write `table` (relative to the root); its path, for those engines."""
    take_guard_off(root.store, table)
    return f"{root.uri}/{table}"


def as_of_earlier_release(store: Store, table: str) -> None:
    """As if the table had never been guarded: what every engine does to it then counts."""
    for version in commit_versions(store, table):
        path = commit_path(table, version)
        commit = parse(version, store.get(path))
        if commit.protocol is not None:
            store.delete(path)
            old = (Protocol() if isinstance(a, Protocol) else a for a in commit.actions)
            store.put_new(path, encode(old))


def take_guard_off(store: Store, table: str) -> None:
    """A commit with nothing but the protocol that tables had before they guarded themselves.

    What a person does who wants to write there whatever it costs.
    """
    version = TableLog(store, table).open().version + 1
    info = CommitInfo(operation="DROP FEATURE", engine="somebody")
    store.put_new(commit_path(table, version), encode([info, Protocol(1, 2)]))


BY_HAND = "by hand"
"""Faster than the queue puts the guard back: one commit takes it off, and all files out."""


def take_files_out(store: Store, table: str) -> None:
    """What an engine would commit that does not look at the guard."""
    log = TableLog(store, table).open()
    info = CommitInfo(operation="OPTIMIZE", engine="somebody")
    gone = [add.removal(0) for add in log.files.values()]
    store.put_new(commit_path(table, log.version + 1), encode([info, Protocol(1, 2), *gone]))


def _write_until(ended: threading.Event, root: QueueRoot, table: str, call: str) -> int:
    landed = 0
    while not ended.is_set():
        # The queue may be faster: with its own commit, or with the guard.
        with contextlib.suppress(FileExistsError, DeltaError):
            if call == BY_HAND:
                take_files_out(root.store, table)
            else:
                CALLS[call](unguarded(root, table))
            landed += 1
        ended.wait(0.1)
    return landed


def _wait_for_the_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("root", "table", "call"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ended,), daemon=True).start()
    print(_write_until(ended, QueueRoot.open(args.root), args.table, args.call))
