"""Makes the archive of classes that Spark starts with.

    python -m lakequeue_cli.supervisor.class_archive

starts Spark as a driver does, lets it do once what drivers and sessions do, and ends it: the Java
machine then writes the classes that it has loaded. See `lakequeue/processes/class_archive.py`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakequeue.errors import LakequeueError, StartFailed
from lakequeue.processes import programs
from lakequeue.processes.class_archive import class_archive, keep
from lakequeue.processes.jars import jar_paths
from lakequeue.processes.java import cache_dir
from lakequeue.processes.parent import die_with_parent

_MODULE = "lakequeue_cli.supervisor.class_archive"
_LONGEST_S = 600.0
_LATER_S = 60.0
_ROOM_BYTES = 2 << 30
"""An archive takes 0.2 GB. Who has no more than this wants it for something else."""
_MEMORY = "512m"
_NO_SAY = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
"""An archive that is made under other options may not fit where these are not given."""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the archive if it is not there, and print its path; 0 or 1."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=main.__doc__)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    into: Path | None = parser.parse_args(argv).into
    try:
        if into is not None:
            _work(into)
        else:
            sys.stdout.write(f"{class_archive(jar_paths()) or make()}\n")
    except LakequeueError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


def make_later() -> None:
    """Make it in the background, with what nobody else wants of the processors, if there is none.

    Not at once: the queue and its first clients are starting, and many an `up` is a short one.
    """
    later = threading.Timer(_LATER_S, _make_behind)
    later.name, later.daemon = "class-archive", True
    later.start()


def make() -> Path:
    """Make the archive anew, and return its path.

    Raises `StartFailed` if Spark does not start, its Java makes no archives, or there is no room
    for one; `MissingDependency` if there is no Java, or no jars.
    """
    jars, cache = jar_paths(), cache_dir(os.environ)
    try:
        if shutil.disk_usage(cache).free < _ROOM_BYTES:
            raise StartFailed(f"{cache} has no room for an archive of classes")
        with tempfile.TemporaryDirectory(prefix="classes-", dir=cache) as folder:
            return keep(_made_in(Path(folder)), jars)
    except OSError as problem:
        raise StartFailed(f"{cache} cannot keep an archive of classes: {problem}") from problem


def _make_behind() -> None:
    with suppress(LakequeueError, OSError):  # it is made at the next start, or never
        if class_archive(jar_paths()) is None:
            # The kernel ends it with this thread, which is a daemon.
            command = ["nice", "-n", "19", *programs.command(_MODULE)]
            environ = programs.environment()
            subprocess.run(command, env=environ, capture_output=True, check=False)


def _made_in(folder: Path) -> Path:
    command = [*programs.command(_MODULE), "--into", str(folder)]
    environ = {name: value for name, value in os.environ.items() if name not in _NO_SAY}
    try:
        # The Java machine has the pipes as well: they end when it has written.
        done = subprocess.run(
            command,
            env=programs.environment(environ),
            capture_output=True,
            check=False,
            timeout=_LONGEST_S,
        )
    except subprocess.TimeoutExpired as late:
        raise StartFailed(f"Spark has written no classes in {_LONGEST_S:.0f} s") from late
    made = _archive_in(folder)
    if done.returncode or not made.exists():
        said = done.stderr.decode(errors="replace").strip()[-2_000:]
        raise StartFailed(f"Spark has written no classes: {said}")
    return made


def _archive_in(folder: Path) -> Path:
    return folder / "made.jsa"


def _work(folder: Path) -> None:
    """What drivers and sessions do, once, in this process."""
    from jobs.streaming.session import start_session
    from lakequeue.processes.spark_sessions import delta_settings
    from queue_tables.root import QueueRoot

    root = QueueRoot.open(str(folder / "queue"), create=True).uri
    more = {
        "spark.driver.defaultJavaOptions": f'"-XX:ArchiveClassesAtExit={_archive_in(folder)}"',
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    spark = start_session("lakequeue-classes", folder, _MEMORY, delta_settings() | more)
    _order(spark, root, folder)
    _ask(spark, root, folder)
    spark.stop()


def _order(spark: Any, root: str, folder: Path) -> None:
    """A query of a driver, up to the batch with which it begins."""
    from jobs.source.source import SourceOptions
    from jobs.streaming.query import ShardQuery

    options = SourceOptions(root, folder, "inbox", 1 << 30, 1 << 20, 0.2, 0.0, 2)
    query = ShardQuery(spark, options, lambda *_: lambda: None)
    query.start(folder / "order")
    query.rehearsed.wait(_LONGEST_S)
    query.hold()
    for running in spark.streams.active:
        running.stop()


def _ask(spark: Any, root: str, folder: Path) -> None:
    """What one asks a queue, and what a query does that writes a table of its own."""
    from lakequeue.spark import create_views, register

    register(spark)
    create_views(spark, root, "default")
    spark.sql("SELECT * FROM default.lag").toPandas()
    table = str(folder / "table")
    rows = spark.range(100).selectExpr("id", "cast(id % 3 AS string) AS kind")
    for mode in ("error", "append"):
        rows.write.format("delta").mode(mode).save(table)
    spark.read.format("delta").load(table).groupBy("kind").count().toPandas()
    stream = spark.readStream.format("delta").option("skipChangeCommits", "true").load(table)
    writer = stream.writeStream.format("delta").option("checkpointLocation", str(folder / "at"))
    writer.trigger(availableNow=True).start(f"{table}-2").awaitTermination()


if __name__ == "__main__":
    sys.exit(main())
