"""A Spark session with Delta Lake as users have it: two cores, 1 GiB, no user interface."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import SparkSession

from lakequeue.processes import class_archive
from lakequeue.processes.jars import Jar, jar_paths
from lakequeue.processes.spark_sessions import delta_settings, worker_python

SPARK_AVRO = Jar(
    "org.apache.spark",
    "spark-avro_2.13",
    "4.2.0",
    "4c186cedc03cbe4ee356a94b32232b347ef48611c3209400b3a77e4fe4abff4f",
)
"""Reads values in Avro, with the Avro that PySpark ships; a session takes it by `ADD JAR`."""


def settings(folder: Path) -> dict[str, str]:
    """What every session of the tests has; its warehouse and scratch files go into `folder`."""
    return delta_settings() | {
        "spark.driver.extraJavaOptions": class_archive.java_options(jar_paths()),
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def start_spark(folder: Path, given: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """Start it, with settings of the caller's own; `JAVA_HOME` is set."""
    # Spark's workers must run the same Python as the tests, as quick to start as users have it.
    os.environ["PYSPARK_PYTHON"] = str(worker_python(folder))
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("lakequeue-tests")
    more = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    for name, value in (settings(folder) | more | dict(given)).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
