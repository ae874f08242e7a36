"""Fixtures that many tests share. Fixtures of one folder stand in its own conftest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.zookeeper import own_zookeeper, sessions, zookeeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["own_zookeeper", "sessions", "zookeeper"]

# How quick an example is depends on what else the machine does: no property is about that.
settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any-machine")


@pytest.fixture(scope="session")
def java_home() -> str:
    """A Java that fits, in this process's environment from now on."""
    from lakequeue.java import find_java

    home = str(find_java().home)
    os.environ["JAVA_HOME"] = home
    return home


@pytest.fixture(scope="session")
def spark(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session with Delta Lake for the whole run: two cores, 1 GiB, no user interface."""
    from pyspark.sql import SparkSession

    from jobs.jars import jar_paths

    folder = tmp_path_factory.mktemp("spark")
    # Spark's workers must run the same Python as the tests.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("lakequeue-tests")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": ":".join(map(str, jar_paths())),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
