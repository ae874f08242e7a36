"""The Python of Spark's own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lakequeue.processes.spark_sessions import worker_python

SHOW = "import os, sys; print(sys.executable, os.environ['PYTHONPATH'], *sys.argv[1:], sep='|')"


def test_it_is_this_one_without_the_sources_that_spark_has_in_zips(tmp_path: Path) -> None:
    wrapper = worker_python(tmp_path / "a folder")
    lib = "/venv/pyspark/python/lib"
    path = [f"{lib}/pyspark.zip", f"{lib}/py4j-0.10.9.9-src.zip", "/my code", "/jobs.zip"]
    for given, left in ((path, "/my code:/jobs.zip"), (path[:2], ""), ([], "")):
        done = subprocess.run(
            [wrapper, "-c", SHOW, "one two", "*"],
            env=os.environ | {"PYTHONPATH": ":".join(given)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == f"{sys.executable}|{left}|one two|*"
    made = wrapper.stat().st_mtime_ns
    assert worker_python(tmp_path / "a folder").stat().st_mtime_ns == made, "it is kept"
