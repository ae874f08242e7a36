"""SQL over a queue in DuckDB, while it runs: no Spark, no service.

    con = lakequeue.duck.connect()  # or connect("s3://bucket/queue")
    con.sql("SELECT * FROM lag")
    con.sql("SELECT * FROM backlog('billing') LIMIT 10")

Needs the extra `lakequeue[duckdb]`. A view shows the tables as they were at `connect` or at the
last `refresh`.
"""

from __future__ import annotations

from lakequeue.calling.addresses import root_to_read
from lakequeue.extras import brought_by

with brought_by("duckdb"):
    import duckdb
    from duckdb.func import ARROW, SPECIAL

    from queue_tables.querying.arrow_tables import dataset, shards_dataset
    from queue_tables.querying.typed_views import (
        VALUE,
        duckdb_function,
        duckdb_signature,
        duckdb_value,
        template_of,
        typed_views,
    )
    from queue_tables.querying.views import DUCKDB, FUNCTIONS, TABLES, VIEWS, render
    from queue_tables.root import QueueRoot
    from queue_tables.topics import TopicStore


def connect(root: str | None = None) -> duckdb.DuckDBPyConnection:
    """A connection to a database in memory with the views of the queue at `root`.

    Without `root` it is the queue that `LAKEQUEUE_ROOT` or the settings file names, or the one in
    `lakequeue-data`.

    Args:
        root: Folder or URI of the queue.

    Returns:
        A connection of DuckDB; its time zone is UTC.

    Raises:
        RootUnusable: There is no queue.

    Example:
        import lakequeue.duck

        queue = lakequeue.duck.connect()
        queue.sql("SELECT * FROM lag").show()
    """
    root = root_to_read(root)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    refresh(connection, root)
    return connection


def refresh(connection: duckdb.DuckDBPyConnection, root: str | None = None) -> None:
    """Let the views of `connection` show the tables as they are now; made if they are not there.

    The tables are `lakequeue_log` and so on, the views as `docs/spark.md` lists them.

    Args:
        connection: One of `connect`, or one of your own.
        root: As in `connect`.

    Raises:
        RootUnusable: There is no queue.

    Example:
        import lakequeue.duck

        queue = lakequeue.duck.connect()
        lakequeue.duck.refresh(queue)  # later: what has come since
        queue.sql("SELECT count(*) FROM log").show()
    """
    root = root_to_read(root)
    for name in TABLES:
        connection.register(_table(name), dataset(root, name))
    connection.register(_table("journal"), shards_dataset(root, "journal"))
    for name, template in VIEWS.items():
        sql = render(template, DUCKDB, _table, str)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {sql}")
    for name, view in FUNCTIONS.items():
        connection.execute(
            f"CREATE OR REPLACE TEMP MACRO {name}(group_name) AS TABLE "
            f'SELECT * FROM {view} WHERE "group" = group_name'
        )

    _refresh_typed(connection, root)


def _refresh_typed(connection: duckdb.DuckDBPyConnection, root: str) -> None:
    """A view for each topic with a schema."""
    functions = connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()
    known = {name for (name,) in functions}
    for view in typed_views(TopicStore(QueueRoot.existing(root, replica_too=True)).list()):
        if view.kind != "json":
            from queue_tables.querying.value_decoding import column_of

            function = duckdb_function(view)
            if function in known:
                connection.remove_function(function)
            connection.create_function(
                function,
                column_of(view),
                ["BLOB"],
                duckdb.type(duckdb_signature(view)),
                type=ARROW,
                null_handling=SPECIAL,
            )
        sql = render(template_of(view), DUCKDB, _table, str).replace(VALUE, duckdb_value(view))
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {view.name} AS {sql}")


def _table(name: str) -> str:
    return f"lakequeue_{name}"
