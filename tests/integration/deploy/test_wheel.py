"""The wheel alone, in an environment of its own, has every package and every entry point."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from lakequeue.records import Offset, Partition
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.ordered_log import OrderedLog, Sent
from tests.support.deployed.bundle import arguments, load, resolve
from tests.support.deployed.installed import PROJECT, Installed

PROJECT_TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
CALL = """
import sys
from importlib.metadata import distribution
dist = distribution("lakequeue")
(entry,) = [e for e in dist.entry_points if e.name == sys.argv[1] and e.group == "lakequeue.jobs"]
sys.argv = ["lakequeue", *sys.argv[2:]]
entry.load()()
"""
"""As Databricks calls a task of a wheel."""


def test_the_wheel_stands_on_its_own(installed: Installed) -> None:
    """Nothing of this working copy is seen from there."""
    found = installed("python", "-c", "import lakequeue, jobs; print(lakequeue.__file__, jobs)")
    assert str(PROJECT) not in found.stdout, found.stdout
    assert installed("python", "-c", "import tests").returncode == 1


def test_its_command_and_its_modules_run(installed: Installed) -> None:
    shown = installed("lakequeue", "--help")
    assert (shown.returncode, "topic" in shown.stdout) == (0, True), shown.stderr
    for job in ("order", "stream_in"):
        shown = installed("python", "-m", f"jobs.{job}", "--help")
        assert (shown.returncode, "exit codes" in shown.stdout) == (0, True), shown.stderr


def test_every_entry_point_loads_and_every_package_is_there(installed: Installed) -> None:
    names = sorted(PROJECT_TABLE["entry-points"]["lakequeue.jobs"])
    shown = installed(
        "python",
        "-c",
        "import ingest, consumer_service, coordination, serving, pyspark_lakequeue, queue_tables\n"
        "from importlib.metadata import entry_points\n"
        "for e in entry_points(group='lakequeue.jobs'): e.load(); print(e.name)",
    )
    assert sorted(set(shown.stdout.split())) == names, shown.stderr


def test_maintenance_copies_and_erasing_of_the_bundle_run_from_the_wheel(
    installed: Installed, tmp_path: Path
) -> None:
    """With exactly the parameters that the bundle gives them."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    topic = TopicStore(root).create("orders", partitions=1)[0]
    values = [b"alice", b"bob"]
    OrderedLog(root).order([Sent(topic.topic_id, 0, value, key=value) for value in values])
    jobs = resolve(load()["resources"]["jobs"], _Given(root.uri))
    runs: list[tuple[dict[str, Any], dict[str, str]]]
    runs = [
        (task, {})
        for task in jobs["maintenance"]["tasks"]
        # Needs Spark: `tests/integration/spark/clusters/test_connect.py`.
        if task["task_key"] != "views"
    ]
    # What is no variable of the bundle that it knows is called as the variable is.
    (mirror,), (fork,) = (jobs[name]["tasks"] for name in ("mirror", "fork"))
    copy = {"to": str(tmp_path / "fork"), "as_of": "now", "groups": "--no-older-groups"}
    runs += [(mirror, {}), (fork, copy | {"how": "--dry-run"}), (fork, copy | {"how": "--json"})]
    request = {"topic": "orders", "where": "key = 'alice'", "how": "--dry-run"}
    (erase,) = jobs["erase"]["tasks"]
    runs += [(erase, request), (erase, request | {"how": "--yes"})]
    left = []
    for task, given in runs:
        entry = task["python_wheel_task"]["entry_point"]
        done = installed("python", "-c", CALL, entry, *arguments(task, given))
        assert done.returncode == 0, done.stderr
        rows = LogReader(root).read_range(topic.topic_id, Partition(0), Offset(0), 2)
        left.append(rows.column("value").to_pylist())
    assert LogReader(QueueRoot.existing(copy["to"])).end_offset(topic.topic_id, Partition(0)) == 2
    assert left == [values] * (len(runs) - 1) + [[None, b"bob"]]


class _Given(dict[str, str]):
    """The root; of other variables their names."""

    def __init__(self, root: str) -> None:
        super().__init__(root=root)

    def __missing__(self, name: str) -> str:
        return name
