"""`lakequeue up` and `lakequeue doctor` ask an object store before anything is started there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.services.s3 import BUCKET, S3Server

pytestmark = pytest.mark.timeout(180)


def run(server: S3Server, tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """The command line with the environment that leads to the server."""
    return subprocess.run(
        [sys.executable, "-m", "lakequeue_cli.app", *command],
        env={**os.environ, **server.environ, "LAKEQUEUE_WORK_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_store_that_overwrites_is_refused_and_nothing_is_left_there(tmp_path: Path) -> None:
    with S3Server(lax=True) as lax:
        root = f"s3://{BUCKET}/refused"
        up = run(lax, tmp_path, "up", "--root", root, "--ingest-port", "0", "--consumer-port", "0")
        assert up.returncode == 4, up.stderr
        assert "does not refuse to create a file that exists" in up.stderr
        assert "object store with conditional puts" in up.stderr
        doctor = run(lax, tmp_path, "doctor", "--root", root)
        assert doctor.returncode != 0
        assert "does not refuse to create a file that exists" in doctor.stdout
        assert lax.store("refused").sizes("") == {}


def test_the_doctor_finds_a_store_that_does_as_it_must(tmp_path: Path) -> None:
    with S3Server() as server:
        root = f"s3://{BUCKET}/well"
        said = run(server, tmp_path, "doctor", "--root", root).stdout
        assert f"{root} supports atomic create" in " ".join(said.split())
        assert server.store("well").sizes("") == {}
