"""What the Python processes load that Spark starts for a query: no more than they use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder

MADE = """
import pickle, sys
from pyspark.sql.types import StructType
import pyspark_lakequeue

options = {"root": sys.argv[1], "subscribe": "orders", "startingOffsets": "earliest"}
source = pyspark_lakequeue.DefaultSource(options)
source.schema()
schema = StructType()
for column, kind in (
    ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "integer"),
    ("offset", "long"), ("timestamp", "timestamp"), ("timestampType", "integer"),
):
    schema.add(column, kind)
reader = source.streamReader(schema)
"""
PICKLED = (
    MADE
    + """
pickle.dumps(reader)
heavy = ("queue_tables", "pydantic", "deltalake", "obstore")
print(sorted(name for name in sys.modules if name.split(".")[0] in heavy))
"""
)
PLANS = (
    MADE
    + """
reader.prepareForTriggerAvailableNow()
start = reader.initialOffset()
end = reader.latestOffset(start, reader.getDefaultReadLimit())
print(len(reader.partitions(start, end)), "part")
seldom = ("httpx2", "structlog", "rich", "pandas", "jsonschema_rs", "fastavro", "asyncio")
print(sorted(name for name in sys.modules if name in seldom))
print(sorted(name for name in sys.modules if name.startswith("lakequeue.wire.calls.")))
"""
)


def test_a_reader_is_made_without_what_reads_tables() -> None:
    assert printed(PICKLED, "/queue") == ["[]"]


def test_a_plan_is_made_without_pandas_and_what_services_and_clients_speak(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    log = LogBuilder(root)
    log.append(log.topic("orders"), ["a"])
    calls = ["lakequeue.wire.calls.retries", "lakequeue.wire.calls.topics"]
    assert printed(PLANS, root.uri) == ["1 part", "[]", str(calls)]


def printed(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
