"""What every Spark session of ours is told, and whether somebody else has started one."""

from __future__ import annotations

import os

from lakequeue.processes.jars import jar_paths

_HOSTS = ("PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE")


def has_host() -> bool:
    """Whether `spark-submit`, Databricks or Spark Connect runs this, and has the session."""
    return any(name in os.environ for name in _HOSTS)


def delta_settings() -> dict[str, str]:
    """Settings by which a session that is started here has Delta Lake.

    Raises `MissingDependency` if the jars are not there and cannot be fetched.
    """
    return {
        "spark.driver.extraClassPath": ":".join(map(str, jar_paths())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
