"""A root of the release before: it works as it is, is raised step by step, and says what to run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue import Producer
from lakequeue.errors import NewerFormat
from lakequeue.steps import Step
from queue_tables.delta.actions import Metadata
from queue_tables.delta.declared import lacking_columns
from queue_tables.delta.guard import is_guarded
from queue_tables.delta.table import TableLog
from queue_tables.querying.arrow_tables import dataset
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import NEWEST
from queue_tables.schema.schemas import REJECTS, TABLES
from queue_tables.upkeep.health import table_paths
from queue_tables.upkeep.upgrade import changes_of
from tests.integration.upgrade.conftest import SENT
from tests.support.data.order_truth import log_rows
from tests.support.kinds import one_now
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import wait_for
from tests.support.upgrading.previous import PROJECT, PreviousRelease

OLD_LOOK = """
import sys
from queue_tables.arrow_tables import dataset
print(*sorted(row["value"].decode() for row in dataset(sys.argv[1], "log").to_table().to_pylist()))
"""


def start(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.upgrading.upgrade_process", "--root", str(root)]
    env = os.environ | {"PYTHONPATH": str(PROJECT)}
    return subprocess.run([*command, *args], cwd=PROJECT, env=env, capture_output=True, text=True)


def upgrade(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """As an operator says it."""
    command = [sys.executable, "-m", "lakequeue_cli.start", "upgrade", "--root", str(root)]
    return subprocess.run([*command, *args], cwd=PROJECT, capture_output=True, text=True)


def send(url: str, *values: str) -> None:
    with Producer(url) as producer:
        for value in values:
            producer.send("orders", value, key=value)


def ordered(root: Path, epoch: int, count: int) -> list[str]:
    """Every value of the log, once there are so many."""
    opened = QueueRoot.open(str(root))
    with ordering(opened, epoch):
        wait_for(lambda: len(log_rows(opened)) >= count, f"{count} records are ordered")
    return sorted(row["value"].decode() for row in log_rows(opened))


def test_both_releases_go_on_with_what_the_other_wrote_until_the_format_is_raised(
    previous: PreviousRelease, old_root: Path
) -> None:
    with IngestService(old_root, node="new") as node:
        send(node.ready["url"], "new-1")
        assert "lakequeue upgrade --check" in node.stderr(), "it says what to run, and runs"
    everything = [*SENT, "new-1"]
    assert ordered(old_root, 1, len(everything)) == sorted(everything)
    assert previous.script(OLD_LOOK, str(old_root)).split() == sorted(everything)
    # Started anew: by exact columns, it would be refused if anything had been added.
    with previous.ingest(old_root) as url:
        send(url, "old-again")
    everything += ["old-again"]
    assert ordered(old_root, 2, len(everything)) == sorted(everything)
    assert previous.script(OLD_LOOK, str(old_root)).split() == sorted(everything)


def test_the_command_tells_does_it_and_shuts_the_release_before_out(
    previous: PreviousRelease, old_root: Path
) -> None:
    checked = upgrade(old_root)
    assert checked.returncode == 1
    assert "would raise the format of the root from 1 to 2" in checked.stdout
    assert "would add `detail` to rejects" in checked.stdout
    assert QueueRoot.existing(str(old_root)).format.number == 1, "nothing was changed"
    applied = upgrade(old_root, "--apply")
    assert applied.returncode == 0, applied.stderr
    assert "is of format 2 now" in applied.stdout
    again = upgrade(old_root, "--check", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["steps"] == []
    refused = previous("job", "run", "order", "--dry-run", "--root", str(old_root))
    assert refused.returncode != 0
    assert "is of format 2, this release knows up to 1; upgrade lakequeue" in refused.stderr
    assert ordered(old_root, 1, len(SENT)) == sorted(SENT)


@pytest.mark.parametrize(
    "crash",
    one_now(
        [
            Step.UPGRADE_GUARDED,
            f"{Step.UPGRADE_GUARDED}:3",
            Step.UPGRADE_RAISED,
            Step.UPGRADE_WIDENED,
        ],
        Step.UPGRADE_RAISED,
    ),
)
def test_killed_at_a_step_the_queue_works_and_the_next_run_ends_it(
    old_root: Path, crash: str
) -> None:
    before = json.loads((old_root / "_lakequeue/format.json").read_text())
    assert start(old_root, "--crash-at", crash).returncode == -signal.SIGKILL
    everything = ordered(old_root, 1, len(SENT))
    assert everything == sorted(SENT)
    ended = start(old_root)
    assert ended.returncode == 0, ended.stderr
    root = QueueRoot.existing(str(old_root))
    assert changes_of(root) == []
    assert root.format == NEWEST
    after = json.loads((old_root / "_lakequeue/format.json").read_text())
    kept = ("queue_id", "created_at")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    for path, table in table_paths(root).items():
        log = TableLog(root.store, path).open()
        assert is_guarded(log.protocol), path
        assert lacking_columns(log.metadata, table) == (), path
    assert ordered(old_root, 2, len(SENT)) == everything


def test_what_could_not_be_ordered_before_has_its_reason_in_sql_before_and_after(
    old_root: Path,
) -> None:
    """Files have the column from the beginning: the upgrade only tells readers of Delta of it."""
    root = QueueRoot.open(str(old_root))
    assert "detail" not in TableLog(root.store, "rejects").open().metadata.schema_string
    assert "detail" in dataset(root.uri, REJECTS.name).schema.names
    assert upgrade(old_root, "--apply").returncode == 0
    assert "detail" in TableLog(root.store, "rejects").open().metadata.schema_string
    assert dataset(root.uri, REJECTS.name).schema.names.count("detail") == 1


def test_columns_of_a_later_release_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    root = QueueRoot.open(str(folder))
    with IngestService(folder) as node:
        node.create("orders")
        send(node.ready["url"], "a")
        (shard,) = root.shards("inbox")
        for path in (*(n for n, t in TABLES.items() if not t.sharded), f"inbox/{shard}"):
            if root.is_table(path):
                _widen(TableLog(root.store, path).open())
        send(node.ready["url"], "b")
    assert ordered(folder, 1, 2) == ["a", "b"]
    opened = QueueRoot.open(str(folder))
    assert opened.damaged == {}
    assert "later" in TableLog(opened.store, "log").open().metadata.schema_string
    assert changes_of(opened) == []


def _widen(log: TableLog) -> None:
    schema = json.loads(log.metadata.schema_string)
    field = {"name": "later", "type": "string", "nullable": True, "metadata": {}}
    schema["fields"].append(field)
    found = log.metadata
    log.commit(
        [Metadata(found.id, json.dumps(schema), found.partition_columns, dict(found.configuration))]
    )


def test_a_feature_of_a_later_release_is_refused_with_its_name_and_the_release(
    tmp_path: Path,
) -> None:
    QueueRoot.open(str(tmp_path))
    path = tmp_path / "_lakequeue/format.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps(said | {"features": {"sealed_records": "0.7.0"}}))
    refused = upgrade(tmp_path, "--check")
    assert refused.returncode == 4
    assert "has the feature sealed_records, which this release does not know" in refused.stderr
    assert "install lakequeue 0.7.0 or later here" in refused.stderr
    with pytest.raises(NewerFormat, match="sealed_records"):
        QueueRoot.open(str(tmp_path))
