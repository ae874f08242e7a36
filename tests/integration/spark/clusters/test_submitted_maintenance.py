"""The maintenance jobs as `spark-submit` starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from queue_tables.root import QueueRoot
from tests.support.kinds import one_now

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
PROJECT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("job", one_now(["retention", "compaction", "metrics", "mirror"]))
def test_a_job_runs_under_spark_submit(root: QueueRoot, java_home: str, job: str) -> None:
    program = Path(sys.executable).parent / "spark-submit"
    command = [str(program), "--master", "local[1]", f"jobs/{job}.py", "--root", root.uri, "--json"]
    if job == "mirror":
        command += ["--to", f"{root.uri}-replica"]
    env = os.environ | {
        "JAVA_HOME": java_home,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    done = subprocess.run(
        command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["job"], report["dry_run"]) == (f"jobs.{job}", False)
