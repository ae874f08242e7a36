"""The archive of classes: made by one call, used by sessions, and ignored when it is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue.processes.jars import jar_paths

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.timeout(900)]

SESSION = """
import sys
from pathlib import Path
from jobs.streaming.session import start_session

spark = start_session("test", Path(sys.argv[1]), "512m")
maps = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()
print(spark.range(5).count(), sys.argv[2] in maps)
"""

UP = """
import threading
from lakequeue_cli.supervisor import class_archive

class_archive._LATER_S = 0.0
class_archive.make_later()
for thread in threading.enumerate():
    if thread.name == "class-archive":
        thread.join()
print("made")
"""
"""What `lakequeue up` does when it is ready."""


def run(environ: dict[str, str], *arguments: object) -> str:
    """A Python program of ours; its last line."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout.splitlines()[-1]


def test_it_is_made_used_and_ignored_when_it_is_damaged(tmp_path: Path, java_home: str) -> None:
    folder = jar_paths()[0].parent
    cache = tmp_path / "a cache" / "lakequeue"
    cache.mkdir(parents=True)
    (cache / folder.name).symlink_to(folder)
    # Options under which it would not fit those that are started without them.
    environ = os.environ | {"XDG_CACHE_HOME": str(cache.parent)}
    bare = {name: value for name, value in environ.items() if name != "SPARK_SUBMIT_OPTS"}

    assert run(environ, "-c", UP) == "made"
    (made,) = cache.glob("*.jsa")
    assert run(environ, "-m", "lakequeue_cli.supervisor.class_archive") == str(made), "it is kept"
    assert {path.name for path in cache.iterdir()} == {folder.name, made.name}

    def start(name: str, given: dict[str, str]) -> str:
        work = tmp_path / name
        work.mkdir()
        return run(given, "-c", SESSION, work, made)

    assert start("whole", bare) == "5 True"
    assert start("verifies nothing", environ) == "5 True", "as sessions of the tests"
    made.chmod(0o600)
    with made.open("r+b") as archive:
        archive.seek(made.stat().st_size // 4)
        archive.write(bytes(made.stat().st_size // 2))
    assert start("damaged", bare) == "5 False"
