"""What runs on a cluster runs over Spark Connect: no JVM, no context, at the caller's side."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.services.order_thread import ordering
from tests.support.spark.connect_runner import RECORDS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def came(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of each attempt, in one session."""
    folder = tmp_path_factory.mktemp("connect")
    root = QueueRoot.open(str(folder / "queue"))
    for name in ("orders", "fed"):
        TopicStore(root).create(name, partitions=2)
    command = [sys.executable, "-m", "tests.support.spark.connect_runner"]
    with ordering(root):
        done = subprocess.run(
            [*command, "--root", root.uri, "--folder", str(folder)],
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("CAME ")]
    assert len(lines) == 6, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(json.loads(line.removeprefix("CAME ")) for line in lines)


def test_frames_and_streams_are_written_and_read(came: dict[str, Any]) -> None:
    assert came["is_connect"] == "pyspark.sql.connect.session"
    assert came["write_a_frame"] == list(range(RECORDS))
    assert came["write_a_stream"] == [[RECORDS, 0], list(range(RECORDS))]


def test_a_wrong_option_is_named_with_the_one_that_is_meant(came: dict[str, Any]) -> None:
    assert "startingOffset" in came["refuse_wrong_options"]
    assert "startingOffsets" in came["refuse_wrong_options"]


def test_a_delta_sink_counts_once_whatever_the_checkpoint(came: dict[str, Any]) -> None:
    assert came["read_a_stream_into_delta"] == [RECORDS, RECORDS]


def test_views_are_created_and_queried(came: dict[str, Any]) -> None:
    code, first, again, backlog, topics = came["query_views"]
    assert (code, first, again) == (0, [RECORDS, RECORDS], [RECORDS, RECORDS])
    assert (backlog, topics) == (0, ["fed", "orders"])
