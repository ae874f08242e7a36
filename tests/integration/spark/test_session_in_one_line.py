"""`lakequeue.spark.session()`: without an activated environment, in any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue.processes.jars import jar_paths
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.spark.spark_session import SPARK_AVRO

PROGRAM = """
import sys
import lakequeue.spark
import pyspark

spark = lakequeue.spark.session("report", {"spark.sql.session.timeZone": "Asia/Tokyo"})
orders = (
    spark.read.format("lakequeue").option("root", sys.argv[1]).option("subscribe", "orders").load()
)
print("records", sorted(bytes(row.value) for row in orders.select("value").collect()))
print("table", spark.sql(f"SELECT count(*) FROM delta.`{sys.argv[1]}/log`").first()[0])
print("same", lakequeue.spark.session() is spark, spark.sparkContext.appName)
print("zone", spark.conf.get("spark.sql.session.timeZone"))
worker = spark.sparkContext.parallelize([0], 1).map(lambda _: (sys.executable, pyspark.__file__))
spark.sql(f"ADD JAR '{sys.argv[2]}'")
said = '{"type": "record", "name": "R", "fields": [{"name": "text", "type": "string"}]}'
long = f"from_avro(X'8080808008', '{said}', map('mode', 'PERMISSIVE'))"
print("a text of a gigabyte in five bytes", spark.sql(f"SELECT {long}.text").first()[0])
print("worker", worker.first() == (sys.executable, pyspark.__file__))
"""


@pytest.mark.spark
@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_session_needs_no_activated_environment(
    root: QueueRoot, log: LogBuilder, tmp_path: Path
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["a", "b"])
    kept = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, root.uri, jar_paths(jars=(SPARK_AVRO,))[0]],
        env=kept | {"PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    # That of the JVM comes before anybody could have a say.
    said = [line for line in done.stderr.splitlines() if "incubator modules" not in line]
    assert said == [], "a session that is all right says nothing"
    assert done.stdout.splitlines() == [
        "records [b'a', b'b']",
        "table 2",
        "same True report",
        "zone Asia/Tokyo",
        "a text of a gigabyte in five bytes None",
        "worker True",
    ]
