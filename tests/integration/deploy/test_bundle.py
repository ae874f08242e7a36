"""The Databricks bundle says nothing that Databricks' own classes, or our jobs, do not know."""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from importlib.metadata import EntryPoint, distribution, version
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import pytest
from databricks.bundles.jobs import Job

from queue_tables.root import QueueRoot
from tests.support.deployed.bundle import (
    FOLDER,
    PARAMETER,
    VARIABLE,
    arguments,
    load,
    resolve,
    texts,
)
from tests.support.deployed.quartz import schedule_of

PROJECT = Path(__file__).parents[3]
BUNDLE = load()
GIVEN = {
    "root": "s3://bucket/queue",
    "zookeeper": "zk:2181",
    "node_type_id": "some.type",
}
VARIABLES = {name: one.get("default") for name, one in BUNDLE["variables"].items()} | GIVEN
JOBS: dict[str, Any] = resolve(BUNDLE["resources"]["jobs"], VARIABLES)
TASKS = [(name, task) for name, job in JOBS.items() for task in job["tasks"]]
ENTRY_POINTS: dict[str, EntryPoint] = {
    entry.name: entry
    for entry in distribution("lakequeue").entry_points
    if entry.group == "lakequeue.jobs"
}
SPARK = version("pyspark")
NAMES = [f"{name}.{task['task_key']}" for name, task in TASKS]


def test_every_variable_is_declared_with_a_reason_and_used() -> None:
    declared = BUNDLE["variables"]
    used = {
        name
        for text in texts([BUNDLE["resources"], [one.get("default") for one in declared.values()]])
        for name in VARIABLE.findall(text)
    }
    assert used == set(declared)
    assert all(one["description"] for one in declared.values())
    assert {"catalog", "schema", "root"} <= used
    assert {name for name, one in declared.items() if "default" not in one} == set(GIVEN)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_one_that_databricks_knows(name: str) -> None:
    """Unknown fields, wrong types and values are refused by Databricks' own classes."""
    job = JOBS[name]
    Job.from_dict(job)
    clusters = {cluster["job_cluster_key"] for cluster in job["job_clusters"]}
    keys = [task["task_key"] for task in job["tasks"]]
    assert len(set(keys)) == len(keys)
    for task in job["tasks"]:
        assert task["job_cluster_key"] in clusters
        assert {before["task_key"] for before in task.get("depends_on", [])} <= set(keys)


def test_databricks_classes_refuse_what_they_do_not_know() -> None:
    """Else the test above could not fail."""
    job = JOBS["order"]
    with pytest.raises(ValueError, match="continous"):
        Job.from_dict(job | {"continous": {}})
    with pytest.raises(ValueError, match="RUNNING"):
        Job.from_dict(job | {"continuous": {"pause_status": "RUNNING"}})


def test_ordering_is_continuous_and_maintenance_is_scheduled() -> None:
    assert JOBS["order"]["continuous"] == {"pause_status": "UNPAUSED"}
    assert JOBS["maintenance"]["schedule"]["timezone_id"] == "UTC"
    done = {task["python_wheel_task"]["entry_point"] for task in JOBS["maintenance"]["tasks"]}
    assert done == {"metrics", "retention", "compaction", "create_views"}


def test_schedules_fire_when_they_should_and_not_at_once() -> None:
    found = {name: job["schedule"] for name, job in JOBS.items() if "schedule" in job}
    fires = {name: schedule_of(one["quartz_cron_expression"]) for name, one in found.items()}
    assert {name: sorted(one.minutes) for name, one in fires.items()} == {
        "maintenance": [10],
        "mirror": list(range(5, 60, 10)),
    }
    for name, one in fires.items():
        assert ZoneInfo(found[name]["timezone_id"]).key == "UTC"
        assert one.seconds == {0}
        assert (len(one.hours), len(one.days or ()), len(one.months)) == (24, 31, 12)
    for wrong in ("0 10 * * * *", "10 * * * ?", "0 60 * * * ?", "0 5/0 * * * ?", "0 ? * * * ?"):
        with pytest.raises(ValueError, match=r"fields|exactly one|within|for days"):
            schedule_of(wrong)


def test_the_bundle_as_a_whole_has_what_the_cli_looks_for() -> None:
    """What stands beside the jobs has no class of Databricks'."""
    parts = {"bundle", "include", "artifacts", "variables", "targets", "resources"}
    assert set(BUNDLE) == parts
    included = {path for pattern in BUNDLE["include"] for path in FOLDER.glob(pattern)}
    assert included == set(FOLDER.rglob("*.yml")) - {FOLDER / "databricks.yml"}
    other = re.compile(r"\$\{(?!var\.)[^}]*\}|\{\{(?!job\.parameters\.)[^}]*\}\}")
    assert [text for text in texts(BUNDLE) if other.search(text)] == []
    for one in BUNDLE["variables"].values():
        assert set(one) <= {"description", "default", "type"}
        assert one.get("type", "text") == (
            "complex" if isinstance(one.get("default"), list | dict) else "text"
        )
    (artifact,) = BUNDLE["artifacts"].values()
    assert (artifact["type"], (FOLDER / artifact["path"]).resolve()) == ("whl", PROJECT)
    modes = {name: target["mode"] for name, target in BUNDLE["targets"].items()}
    assert modes == {"dev": "development", "prod": "production"}
    assert [name for name, one in BUNDLE["targets"].items() if one.get("default")] == ["dev"]


def test_the_runtime_has_the_spark_that_everything_is_tested_with() -> None:
    """Databricks Runtime 19 has Spark 4.2.0: another pin wants another default, and this line."""
    assert (f"pyspark=={SPARK}", VARIABLES["spark_version"]) == (
        "pyspark==4.2.0",
        "19.x-scala2.13",
    )


@pytest.mark.parametrize("name", ["erase", "fork", "dead_letters"])
def test_what_is_run_by_hand_changes_nothing_unless_it_is_told_to(name: str) -> None:
    assert {p["name"]: p["default"] for p in JOBS[name]["parameters"]}["how"] == "--dry-run"


def test_a_mirror_waits_until_it_is_wanted() -> None:
    assert JOBS["mirror"]["schedule"]["pause_status"] == "PAUSED"


def test_every_job_of_the_wheel_is_in_the_bundle_or_part_of_one_that_is() -> None:
    run = {task["python_wheel_task"]["entry_point"] for _, task in TASKS}
    assert ENTRY_POINTS.keys() - run == {"order", "offsets"}, "both are in the driver"


def test_the_libraries_are_the_wheel_and_what_its_extras_name() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {line for extra in ("cli", "server", "spark") for line in extras[extra]}
    libraries = VARIABLES["libraries"]
    named = {library["pypi"]["package"] for library in libraries if "pypi" in library}
    # Databricks has these two itself.
    assert named == {line for line in wanted if not line.startswith(("pyspark", "delta-spark"))}
    (wheel,) = (library["whl"] for library in libraries if "whl" in library)
    # `tests/integration/deploy/test_wheel.py` builds it: its name fits.
    assert (FOLDER / wheel).parent.resolve() == PROJECT / "dist"


@pytest.mark.parametrize(("job", "task"), TASKS, ids=NAMES)
def test_job_parameters_are_declared_and_used(job: str, task: dict[str, Any]) -> None:
    declared = {parameter["name"] for parameter in JOBS[job].get("parameters", [])}
    used = {name for text in texts(JOBS[job]["tasks"]) for name in PARAMETER.findall(text)}
    assert used == declared
    assert task["python_wheel_task"]["package_name"] == "lakequeue"


class Parsed(Exception):
    """The command line is understood: the job would begin now."""


@pytest.mark.parametrize(("job", "task"), TASKS, ids=NAMES)
def test_the_job_takes_the_parameters_that_it_is_given(
    job: str, task: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own parser; erase, which has none of argparse, runs in `tests/integration/deploy`."""
    wheel_task = task["python_wheel_task"]
    entry = ENTRY_POINTS[wheel_task["entry_point"]].load()
    if job == "erase":
        return
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, argv: list[str] | None = None) -> NoReturn:
        parse(parser, argv)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    given = {p["name"]: p["default"] or "x" for p in JOBS[job].get("parameters", [])}
    monkeypatch.setattr(sys, "argv", ["lakequeue", *arguments(task, given)])
    with pytest.raises(Parsed):
        entry()


@pytest.mark.parametrize("job", ["dead_letters", "erase", "fork", "stream_in"])
def test_a_job_whose_parameters_were_forgotten_fails_and_makes_nothing(
    job: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An empty text is no root, no topic and no table."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    monkeypatch.chdir(tmp_path)
    (task,) = resolve(BUNDLE["resources"]["jobs"][job], VARIABLES | {"root": root.uri})["tasks"]
    given = {p["name"]: p["default"] for p in JOBS[job]["parameters"]}
    for how in {given.get("how", ""), "--yes" if job == "erase" else "--json"}:
        argv = arguments(task, given | {"how": how})
        monkeypatch.setattr(sys, "argv", ["lakequeue", *argv])
        with pytest.raises(RuntimeError, match="ended with"):
            ENTRY_POINTS[task["python_wheel_task"]["entry_point"]].load()()
    assert list(tmp_path.iterdir()) == [tmp_path / "queue"]


def test_an_exit_code_becomes_an_exception(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Databricks looks at nothing else."""
    retention = ENTRY_POINTS["retention"].load()
    monkeypatch.setattr(sys, "argv", ["lakequeue", "--help"])
    retention()
    monkeypatch.setattr(sys, "argv", ["lakequeue", "--root", str(tmp_path / "nowhere")])
    with pytest.raises(RuntimeError, match=r"jobs\.retention ended with 4"):
        retention()
    assert "nowhere" in capsys.readouterr().err
