"""What every Spark session of ours is told, and whether somebody else has started one."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from lakequeue.processes.jars import jar_paths

QUIET = {
    "org.apache.hadoop.util.NativeCodeLoader": "error",
    "org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream": "error",
    # A plan that is too long for a line of the log.
    "org.apache.spark.util.SparkStringUtils": "error",
}
"""Classes of Spark that warn, in every session, of what is meant so."""
_LOG4J = "log4j2.properties"
_LAYOUT = "%d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex"
"""Spark's own."""
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


def quiet_logs(folder: Path) -> Path | None:
    """The settings of a log, so that a session that is all right says nothing.

    It warns as Spark does, but for `QUIET`. None if the user has settings of their own.
    """
    theirs = os.environ.get("SPARK_CONF_DIR") or f"{os.environ.get('SPARK_HOME', '')}/conf"
    if any((Path(theirs) / name).exists() for name in (_LOG4J, "log4j2.xml", "log4j2.yaml")):
        return None
    lines = [
        "rootLogger.level = warn",
        "rootLogger.appenderRef.stderr.ref = console",
        "appender.console.type = Console",
        "appender.console.name = console",
        "appender.console.target = SYSTEM_ERR",
        "appender.console.layout.type = PatternLayout",
        f"appender.console.layout.pattern = {_LAYOUT}",
    ]
    for number, (name, level) in enumerate(QUIET.items()):
        lines += [f"logger.own{number}.name = {name}", f"logger.own{number}.level = {level}"]
    _write(folder / _LOG4J, "\n".join(lines) + "\n", 0o644)
    return folder / _LOG4J


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
    _write(wrapper, script, 0o755)
    return wrapper


def _write(path: Path, content: str, mode: int) -> None:
    """Unless it is there; several processes may do so at once."""
    if not path.exists() or path.read_text(encoding="utf-8") != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_text(content, encoding="utf-8")
        part.chmod(mode)
        part.replace(path)
