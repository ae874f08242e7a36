"""SQL over a queue in DuckDB, while it runs: no Spark, no service.

    con = lakequeue.duck.connect("s3://bucket/queue")
    con.sql("SELECT * FROM lag")
    con.sql("SELECT * FROM backlog('billing') LIMIT 10")

Needs the extra `lakequeue[duckdb]`. A view shows the tables as they were at `connect` or at the
last `refresh`.
"""

from __future__ import annotations

from lakequeue.extras import brought_by

with brought_by("duckdb"):
    import duckdb

    from queue_tables.querying.arrow_tables import dataset, shards_dataset
    from queue_tables.querying.views import DUCKDB, FUNCTIONS, TABLES, VIEWS, render


def connect(root: str) -> duckdb.DuckDBPyConnection:
    """A connection to a database in memory with the views of the queue at `root`."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    refresh(connection, root)
    return connection


def refresh(connection: duckdb.DuckDBPyConnection, root: str) -> None:
    """Let the views of `connection` show the tables as they are now; made if they are not there.

    The tables are `lakequeue_log` and so on, the views as `docs/spark.md` lists them.
    """
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


def _table(name: str) -> str:
    return f"lakequeue_{name}"
