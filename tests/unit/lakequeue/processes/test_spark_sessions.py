"""The Python of Spark's own processes, and what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue.processes.spark_sessions import QUIET, quiet_logs, worker_python

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


def test_warnings_of_what_is_meant_so_are_left_out_unless_the_user_has_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    theirs = tmp_path / "conf"
    theirs.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(theirs))
    settings = quiet_logs(tmp_path / "ours")
    assert settings == tmp_path / "ours" / "log4j2.properties"
    written = settings.read_text().splitlines()
    assert "rootLogger.level = warn" in written
    for name in QUIET:
        number = next(line.split(".")[1] for line in written if line.endswith(f"name = {name}"))
        assert f"logger.{number}.level = error" in written
    (theirs / "log4j2.properties").write_text("rootLogger.level = debug\n")
    assert quiet_logs(tmp_path / "ours") is None
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert quiet_logs(tmp_path / "ours") is None
