"""SQL views over a queue, for Spark and Databricks. Plain SQL: also over Spark Connect.

As a job: `python -m pyspark_lakequeue.session.views --root … --schema main.sales`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lakequeue.calling.addresses import root_to_read
from lakequeue.errors import LakequeueError
from lakequeue.records import checked_name
from queue_tables.delta.declared import lacking_columns
from queue_tables.delta.table import TableLog
from queue_tables.querying.typed_views import (
    VALUE,
    is_for_spark,
    spark_value,
    template_of,
    typed_views,
)
from queue_tables.querying.views import FUNCTIONS, SPARK, VIEWS, render
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import JOURNAL, TABLES
from queue_tables.topics import TopicStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_LOADED = "NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"


def create_views(spark: SparkSession, root: str | None = None, schema: str = "queue") -> list[str]:
    """Create the SQL views of a queue.

    Views of the same names are replaced. The view `who_acked_what` covers the consumer-service
    nodes that there are now: call this again when nodes are added. The session needs Delta Lake.

    Args:
        spark: The session.
        root: Root of the queue. By default the queue that `LAKEQUEUE_ROOT` or the settings file
            names, or the one in `lakequeue-data`.
        schema: Schema of the views (`sales` or `main.sales`). It is created if it is missing.

    Returns:
        The names of the views and functions.

    Raises:
        RootUnusable: There is no queue at `root`, or none is given and none is found.
        InvalidName: The schema is not a valid name.

    Example:
        create_views(spark)
        spark.sql("SELECT * FROM queue.lag").show()
    """
    target = ".".join(f"`{checked_name(part, 'schema')}`" for part in schema.split("."))
    root = root_to_read(root)
    queue = QueueRoot.existing(root, replica_too=True)
    base = str(queue.store.local_path or root).rstrip("/").replace("`", "``")
    journals = [f"{base}/journal/{shard}" for shard in queue.shards("journal")]
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {target}")
    for name, template in VIEWS.items():
        sql = render(
            template,
            SPARK,
            lambda table: _all_of(journals) if table == "journal" else _table(queue, base, table),
            lambda view: f"{target}.`{view}`",
        )
        spark.sql(f"CREATE OR REPLACE VIEW {target}.`{name}` AS {sql}")
    for name, view in FUNCTIONS.items():
        spark.sql(
            f"CREATE OR REPLACE FUNCTION {target}.`{name}`(group_name STRING) RETURNS TABLE "
            f"RETURN SELECT * FROM {target}.`{view}` WHERE `group` = group_name"
        )
    return [*VIEWS, *FUNCTIONS, *_typed(spark, queue, target)]


def _typed(spark: SparkSession, queue: QueueRoot, target: str) -> list[str]:
    """A view for each topic with a schema; their names.

    Spark reads Avro and Protobuf with packages of its own. Without them there is no such view.
    """
    made = []
    for view in typed_views(TopicStore(queue).list()):
        if not is_for_spark(view):
            _warn(f"no view {view.name}: the schema has more parts than Spark has columns for")
            continue
        sql = render(template_of(view), SPARK, str, lambda name: f"{target}.`{name}`")
        sql = sql.replace(VALUE, spark_value(view))
        try:
            spark.sql(f"CREATE OR REPLACE VIEW {target}.`{view.name}` AS {sql}")
        except _failures() as error:
            if view.kind == "json":
                raise
            _warn(f"no view {view.name}: {_reason(spark, view.kind, error)}")
            continue
        made.append(view.name)
    return made


def _failures() -> tuple[type[Exception], ...]:
    """What Spark raises for a schema that it cannot make a column of, also from within the JVM."""
    try:
        from py4j.protocol import Py4JError
    except ImportError:  # a client of Spark Connect alone
        return (PySparkException,)
    return PySparkException, Py4JError


def _reason(spark: SparkSession, kind: str, error: Exception) -> str:
    if isinstance(error, PySparkException) and _NOT_LOADED in (error.getCondition() or ""):
        package = f"org.apache.spark:spark-{kind}_2.13:{spark.version}"
        return f"Spark reads {kind} with the package {package}, which is not loaded"
    return f"Spark does not take the schema: {' '.join(str(error).split())[:300]}"


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)  # where `create_views` is called


def _table(queue: QueueRoot, base: str, name: str) -> str:
    """A table as a relation, with the columns that it lacks in a root of an earlier format."""
    relation = f"delta.`{base}/{name}`"
    if queue.format.has_later_columns:
        return relation
    log = TableLog(queue.store, name, keep_files=False).open()
    lacking = lacking_columns(log.metadata, TABLES[name])
    added = "".join(f", CAST(NULL AS {c.spark_type}) AS `{c.name}`" for c in lacking)
    return f"(SELECT *{added} FROM {relation})" if added else relation


def _all_of(journals: Sequence[str]) -> str:
    """The rows of all journal shards, as a relation."""
    if journals:
        return f"({' UNION ALL '.join(f'SELECT * FROM delta.`{path}`' for path in journals)})"
    columns = ", ".join(f"CAST(NULL AS {c.spark_type}) AS `{c.name}`" for c in JOURNAL.columns)
    return f"(SELECT {columns} WHERE false)"


def main(argv: Sequence[str] | None = None) -> int:
    """Create the views in the session that runs, or in one that is started; 0, 1 or 2 (usage)."""
    parser = argparse.ArgumentParser(
        prog="pyspark_lakequeue.session.views",
        description="Create the SQL views of a queue, or create them again: who_acked_what covers "
        "the nodes that there are then.",
        epilog="exit codes: 0 done, 1 failed, 2 usage",
    )
    parser.add_argument("--root", help="root URI or directory of the queue; by default it is found")
    parser.add_argument("--schema", required=True, help="schema, or catalog.schema")
    args = parser.parse_args(argv)
    from pyspark.sql import SparkSession

    try:
        names = create_views(SparkSession.builder.getOrCreate(), args.root, args.schema)
    except (LakequeueError, PySparkException) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{args.schema}.{name}\n" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
