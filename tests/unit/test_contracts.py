"""Each import contract is shown to bite: a violation is seeded in a copy, and must be found."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grimp
import pytest

PROJECT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
CONTRACTS = PYPROJECT["tool"]["importlinter"]["contracts"]


@dataclass(frozen=True)
class Seed:
    """A line that must not be written in a module of that package."""

    contract: str
    module: str
    imported: str

    @property
    def line(self) -> str:
        return f"import {self.imported}\n"


SEEDS = [
    Seed("layers", "ingest.seed_sibling", "consumer_service"),
    Seed("layers", "coordination.seed_sibling", "serving"),
    Seed("layers", "queue_tables.seed_up", "jobs"),
    Seed("layers", "jobs.seed_up", "lakequeue_cli"),
    Seed("layers", "lakequeue.records", "queue_tables"),
    Seed("layers", "lakequeue.client", "coordination"),
    Seed("layers", "pyspark_lakequeue.seed_sibling", "jobs"),
    Seed("layers", "queue_rules.seed_up", "coordination"),
    Seed("layers", "memory_queue.seed_sibling", "ingest"),
    Seed("sdk", "lakequeue.records", "pyarrow"),
    Seed("testing", "queue_tables.schema.topic_rules", "obstore"),
    Seed("storage", "ingest.seed_storage", "deltalake"),
    Seed("coordination", "jobs.seed_coordination", "kazoo"),
    Seed("http", "queue_tables.seed_http", "flask"),
    Seed("spark", "coordination.seed_spark", "pyspark"),
    Seed("source", "pyspark_lakequeue.seed_source", "coordination"),
    Seed("names", "lakequeue.duck", "ingest"),
    Seed("checker", "history_checker.seed_rule", "queue_rules"),
    Seed("checker", "history_checker.seed_service", "ingest"),
    Seed("tables", "queue_tables.delta.seed_up", "queue_tables.root"),
    Seed("tables", "queue_tables.log.seed_group", "queue_tables.groups.facts"),
    Seed("agreements", "serving.seed_table", "queue_tables"),
    Seed("rules", "queue_rules.queues.seed_io", "queue_tables.root"),
    Seed("rules", "queue_rules.produce.seed_io", "httpx2"),
    Seed("layers", "queue_access.seed_up", "queue_tables"),
    Seed("access", "queue_access.seed_io", "httpx2"),
    Seed("rule-rooms", "queue_rules.streams.seed_up", "queue_rules.groups.join_rules"),
    Seed("services", "ingest.seed_client", "lakequeue.client.producing.producer"),
    Seed("services", "consumer_service.webhooks.seed_client", "lakequeue.client.queue"),
    Seed("services", "consumer_service.calls.seed_client", "lakequeue.client.redrive_parts"),
    Seed("services", "jobs.seed_client", "lakequeue.client.admin"),
    Seed("serving-rooms", "serving.front.seed_up", "serving.answers"),
    Seed("agreement-rooms", "coordination.zookeeper.seed_group", "coordination.groups.leases"),
    Seed("ingest-rooms", "ingest.commit.seed_http", "ingest.http.bodies"),
    Seed("consumer-rooms", "consumer_service.ownership.seed_mode", "consumer_service.queues.acks"),
    Seed("consumer-rooms", "consumer_service.reading.seed_member", "consumer_service.members"),
    Seed("job-rooms", "jobs.rows.seed_up", "jobs.source.source"),
    Seed("job-rooms", "jobs.maintenance.seed_job", "jobs.retention"),
    Seed("spark-rooms", "pyspark_lakequeue.source.seed_session", "pyspark_lakequeue.session.views"),
    Seed("memory-rooms", "memory_queue.log", "memory_queue.service"),
    Seed("command-rooms", "lakequeue_cli.supervisor.seed_command", "lakequeue_cli.commands.up"),
    Seed("layers", "consumer_service.seed_console", "console"),
    Seed("layers", "console.seed_sibling", "lakequeue_cli"),
    Seed("console-rooms", "console.rules.seed_io", "console.asking.services"),
    Seed("layers", "consumer_service.seed_gateway", "sqs_gateway"),
    Seed("sqs-rooms", "sqs_gateway.rules.seed_io", "sqs_gateway.calls.services"),
    Seed("sdk-rooms", "lakequeue.wire.seed_client", "lakequeue.calling.nodes"),
    Seed("sdk-rooms", "lakequeue.calling.seed_client", "lakequeue.client.message"),
    Seed(
        "client-rooms",
        "lakequeue.client.producing.seed_consumer",
        "lakequeue.client.consuming.consumer",
    ),
]


def circled(imports: Mapping[str, set[str]]) -> set[str]:
    """Modules of circles, and those between two circles: what is left when both ends are peeled."""
    left = {module: targets & imports.keys() for module, targets in imports.items()}
    while True:
        imported = set[str]().union(*left.values())
        ends = {module for module, targets in left.items() if not targets or module not in imported}
        if not ends:
            return set(left)
        left = {m: targets - ends for m, targets in left.items() if m not in ends}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not for types either: what a lower module needs of a higher one it names as a protocol."""
    graph = grimp.build_graph(*PYPROJECT["tool"]["importlinter"]["root_packages"], cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert circled(imports) == set()
    assert circled({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What lint-imports says of a copy of the packages with every seed in it."""
    copy = tmp_path_factory.mktemp("copy")
    shutil.copy(PROJECT / "pyproject.toml", copy)
    for package in PYPROJECT["tool"]["importlinter"]["root_packages"]:
        shutil.copytree(
            PROJECT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for seed in SEEDS:
        path = copy / Path(*seed.module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        with path.open("a") as module:
            module.write(seed.line)
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=copy,
        env={"PYTHONPATH": str(copy), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: str(contract["id"]))
def test_every_contract_can_be_broken(contract: dict[str, str], verdict: str) -> None:
    assert any(seed.contract == contract["id"] for seed in SEEDS)
    assert f"{contract['name']} BROKEN" in verdict


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.module}-{seed.imported}")
def test_every_seed_is_found_and_named(seed: Seed, verdict: str) -> None:
    name = next(c["name"] for c in CONTRACTS if c["id"] == seed.contract)
    sections = re.split(r"\n(.+)\n-{10,}\n", verdict)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))[name]
    assert f"{seed.module} -> {seed.imported} (l." in found


def test_the_core_is_listed_whole() -> None:
    layers = next(c["layers"] for c in CONTRACTS if c["id"] == "layers")
    listed = {name.strip() for name in layers[-1].split(":")}
    found = {
        f"lakequeue.{path.stem}"
        for path in (PROJECT / "lakequeue").iterdir()
        if not path.stem.startswith("__") and (path.suffix == ".py" or path.is_dir())
    }
    above = {
        "lakequeue.spark",
        "lakequeue.duck",
        "lakequeue.testing",
    }
    assert listed == found - above
