"""What the Python processes load that Spark starts for a query: no more than they use."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import pickle, sys
from pyspark.sql.types import StructType
import pyspark_lakequeue

options = {"root": "/queue", "subscribe": "orders"}
source = pyspark_lakequeue.DefaultSource(options)
source.schema()
schema = StructType()
for column, kind in (
    ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "integer"),
    ("offset", "long"), ("timestamp", "timestamp"), ("timestampType", "integer"),
):
    schema.add(column, kind)
pickle.dumps(source.streamReader(schema))
heavy = ("queue_tables", "pydantic", "deltalake", "obstore")
print(sorted(name for name in sys.modules if name.split(".")[0] in heavy))
"""

PLANS = """
import sys
from pyspark_lakequeue.source.queue_view import QueueView
seldom = ("httpx2", "structlog", "rich", "pandas", "jsonschema_rs", "fastavro", "asyncio")
print(sorted(name for name in sys.modules if name in seldom))
print(sorted(name for name in sys.modules if name.startswith("lakequeue.wire.calls.")))
"""


def test_a_reader_is_made_without_what_reads_tables() -> None:
    assert printed(PROGRAM) == ["[]"]


def test_a_plan_is_made_without_what_services_and_clients_speak() -> None:
    calls = ["lakequeue.wire.calls.retries", "lakequeue.wire.calls.topics"]
    assert printed(PLANS) == ["[]", str(calls)]


def printed(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
