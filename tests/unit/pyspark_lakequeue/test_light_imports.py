"""Spark starts Python processes that only make a reader and pickle it: they load no tables."""

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


def test_a_reader_is_made_without_what_reads_tables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
