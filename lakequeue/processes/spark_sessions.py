"""What every Spark session of ours is told, and whether somebody else has started one."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

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


def worker_python(folder: Path) -> Path:
    """The Python of Spark's own processes: this one, without Spark's zips of its sources.

    Spark puts `pyspark.zip` in front of the path, and Python compiles what is in a zip anew in
    every process: that is two thirds of what each of the half dozen takes that a query starts. The
    same sources stand, compiled, beside this module's dependencies.
    """
    script = f"""#!/bin/sh
set -f
path=
IFS=:
for each in $PYTHONPATH; do
    case $each in */python/lib/pyspark.zip|*/python/lib/py4j-*-src.zip) ;;
    *) path=$path${{path:+:}}$each ;; esac
done
unset IFS
export PYTHONPATH="$path"
exec {shlex.quote(sys.executable)} "$@"
"""
    wrapper = folder / "spark-python"
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != script:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"spark-python.{os.getpid()}"
        part.write_text(script, encoding="utf-8")
        part.chmod(0o755)
        part.replace(wrapper)
    return wrapper
