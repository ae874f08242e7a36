"""A session in one line: with Delta Lake, the cached jars, the right Java and the right Python."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lakequeue.processes import class_archive
from lakequeue.processes.jars import cached_jars, jar_paths
from lakequeue.processes.java import cache_dir, find_java
from lakequeue.processes.spark_sessions import (
    delta_settings,
    has_host,
    quiet_logs,
    worker_python,
)
from pyspark_lakequeue.session.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO_LIMITS = {"bytes": 64 << 20, "string": 64 << 20, "collectionItems": 4 << 20}
"""How long a part of a value in Avro may be. A value says so of itself, and Spark believes it: five
bytes that are not of their schema would take all memory."""
_LOCAL = {
    "spark.master": "local[*]",
    # This machine's own address may be none that it can reach itself by.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # 200 tasks for each join or sort of a few records are most of a query's time.
    "spark.sql.shuffle.partitions": "4",
    # So are 50 for the log of each table, of which a view reads several.
    "spark.databricks.delta.snapshotPartitions": "2",
}
_JAVA = [f"-Dorg.apache.avro.limits.{what}.maxLength={most}" for what, most in AVRO_LIMITS.items()]


def session(app: str = "lakequeue", conf: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark session that reads and writes queues, and every other Delta table.

    If there is a session already (a notebook of Databricks, `spark-submit`, Spark Connect, one of
    your own), it is registered and returned; `conf` is then set on it. Otherwise a local one is
    started: with Delta Lake from the jars in `~/.cache/lakequeue`, which the first start fetches,
    and with this Python, also if its environment is not activated.

    Args:
        app: Name of the application.
        conf: Settings of Spark, by name; they go before those that are set here.

    Returns:
        The session. `format("lakequeue")` and `format("delta")` work in it.

    Raises:
        MissingDependency: There is no Java 17 or 21, or the jars cannot be fetched.

    Example:
        import lakequeue.spark

        spark = lakequeue.spark.session()
        spark.read.format("lakequeue").option("root", root).option("subscribe", "orders").load()
    """
    from pyspark.sql import SparkSession

    given = dict(conf or {})
    active = SparkSession.getActiveSession()
    # The name of a session that is there stays, and Spark would warn of another one.
    builder = SparkSession.builder if active is not None else SparkSession.builder.appName(app)
    if active is None and not has_host():
        # Spark's launcher takes `JAVA_HOME`, and its workers `PYSPARK_PYTHON`.
        os.environ["JAVA_HOME"] = str(find_java().home)
        # The address that is set below; Spark looks for another one before it reads that.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        own = cache_dir(os.environ) / f"python-{zlib.crc32(sys.executable.encode()):08x}"
        os.environ.setdefault("PYSPARK_PYTHON", str(_python(own)))
        if cached_jars() is None:
            where = cache_dir(os.environ)
            sys.stderr.write(f"lakequeue: fetching Delta Lake for Spark, 13 MB, once, to {where}\n")
        java = {"spark.driver.extraJavaOptions": " ".join(_java_options(own))}
        given = _LOCAL | delta_settings() | java | given
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _python(own: Path) -> Path:
    """Of workers: this Python, as quick to start as it can be."""
    try:
        return worker_python(own)
    except OSError:  # no folder of one's own
        return Path(sys.executable)


def _java_options(own: Path) -> Iterator[str]:
    """Spark says nothing as long as nothing is wrong, and starts with an archive of classes."""
    yield from _JAVA
    with suppress(OSError):
        if (quiet := quiet_logs(own)) is not None:
            yield f"-Dlog4j2.configurationFile={quiet.absolute().as_uri()}"
    yield class_archive.java_options(jar_paths())
