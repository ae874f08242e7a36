"""The Spark session of the jobs: small, local, and quick to turn a micro-batch round."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.streaming.work_folder import SOCKETS
from lakequeue.errors import LakequeueError
from lakequeue.processes import class_archive, programs
from lakequeue.processes.jars import jar_paths
from lakequeue.processes.java import QUICK_COMPILER, find_java
from lakequeue.processes.java_logs import log4j_settings
from lakequeue.processes.spark_sessions import QUIET, has_host

_QUIET = QUIET | {
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor": "error",
}
"""They warn of what is meant so."""

STREAMING = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""What a running session can be given, too (a notebook, `spark-submit`)."""

_OURS_ALONE = {
    # Each batch is planned anew, and the driver reads nearly all batches by itself: code that Spark
    # makes for a plan would run for no row, and costs a sixth of the JVM's work in a batch.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.ui.explainMode": "simple",
    # Batches that nobody will look up: of a thousand, the oldest are sought at each new one.
    "spark.sql.ui.retainedExecutions": "10",
}
"""Not for a session in which others ask as well."""


def running_session(app: str) -> SparkSession | None:
    """The session of whoever runs this: `spark-submit`, a cluster of Databricks, a notebook."""
    if SparkSession.getActiveSession() is None and not has_host():
        return None
    builder = SparkSession.builder.appName(app)
    if SparkSession.getActiveSession() is not None or "PYSPARK_GATEWAY_PORT" not in os.environ:
        return builder.getOrCreate()
    # See `lakequeue/processes/programs.py`: on one machine, workers start where the submitter
    # stands. Machines of a cluster have a PYTHONPATH of their own, which this would replace.
    session = builder.config("spark.executorEnv.PYTHONSAFEPATH", "1").getOrCreate()
    if (session.sparkContext.master or "local").startswith("local"):
        session.sparkContext.environment["PYTHONPATH"] = programs.environment()["PYTHONPATH"]
    return session


def start_session(
    app: str, work_dir: Path, driver_memory: str, more: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, with `more` settings beside ours, or take the session that runs.

    Raises `MissingDependency` without a Java.
    """
    session = running_session(app)
    if session is not None:
        for name, value in STREAMING.items():
            session.conf.set(name, value)
        return session
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Spark looks for another address before it reads the one that is set below.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = str(_worker_python(work_dir))
    log4j = work_dir / "log4j2.properties"
    log4j.write_text(log4j_settings("warn", _QUIET))
    builder = SparkSession.builder.appName(app).master("local[2]")
    settings = STREAMING | _OURS_ALONE | _launch(log4j, work_dir, driver_memory) | dict(more or {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _worker_python(work_dir: Path) -> Path:
    """The Python of Spark's own processes: this one, without Spark's zip of its sources.

    Spark puts that zip in front of the path, and Python compiles what is in a zip anew in every
    process: 2.1 s against 0.6 s for each of the half dozen that a query starts. The same sources
    stand, compiled, beside this module's dependencies.
    """
    wrapper = work_dir / "spark-python"
    path = shlex.quote(programs.environment()["PYTHONPATH"])
    python = f"{shlex.quote(sys.executable)} -P"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {python} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


def _launch(log4j: Path, work_dir: Path, driver_memory: str) -> dict[str, str]:
    """What must be known before the JVM starts."""
    launch = {
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Its ports are this machine's alone, and whoever connects has to know a secret of the run.
        "spark.authenticate": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(work_dir / "spark"),
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        # The quick compiler alone: the full one takes a core from the batches for minutes, for
        # plans that are planned anew each time anyway.
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log4j.absolute().as_uri()} -XX:+UseSerialGC -Xss4m "
            f"{QUICK_COMPILER}"
        ),
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "jobs.rows.daemon",
        # Its Python daemons start a process for whoever connects, before they ask for a secret.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(socket_folder(work_dir)),
    }
    if jars := _jars():
        # Hadoop's own local file system forks a `chmod` for each checkpoint file.
        launch |= {
            # All of them, as every session of ours: one archive of classes fits all.
            "spark.driver.extraClassPath": ":".join(map(str, jars)),
            "spark.driver.defaultJavaOptions": class_archive.java_options(jars),
            "spark.hadoop.fs.file.impl": ("com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"),
            "spark.sql.streaming.checkpointFileManagerClass": (
                "org.apache.spark.sql.execution.streaming.checkpointing."
                "FileSystemBasedCheckpointFileManager"
            ),
        }
    return launch


def socket_folder(work_dir: Path) -> Path:
    """A new folder for sockets that its owner alone may enter.

    Its path is short, since a socket's may have 107 bytes and a work folder's often has more.
    `work_dir` has a link to it: what a killed process left behind is removed by the next.
    """
    link = work_dir / SOCKETS
    if link.is_symlink():
        shutil.rmtree(link.readlink(), ignore_errors=True)
        link.unlink()
    folder = Path(tempfile.mkdtemp(prefix="lakequeue-"))  # 0700
    link.symlink_to(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _jars() -> list[Path]:
    try:
        return jar_paths()
    except LakequeueError:
        # They only make batches quicker: without a network the queue runs all the same.
        return []
