"""A notebook written for Kafka runs with two lines changed, and shows the same rows.

With the same broker: the job `stream_in` of a Kafka topic.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.services.order_thread import ordering
from tests.support.spark.kafka import kafka_broker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(900)]
PARTITIONS = 3


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the notebook shows on a real broker and on a queue."""
    folder = tmp_path_factory.mktemp("kafka")
    root = QueueRoot.open(str(folder / "queue"))
    for name in ("orders", "copy", "fed"):
        TopicStore(root).create(name, partitions=PARTITIONS, partitioner="murmur2")
    with kafka_broker(folder, PARTITIONS) as broker, ordering(root):
        command = [sys.executable, "-m", "tests.support.spark.kafka_runner"]
        given = ["--broker", broker.address, "--root", root.uri, "--folder", str(folder)]
        done = subprocess.run(
            [*command, *given], capture_output=True, text=True, timeout=800, check=False
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("SHOWN ")]
    assert len(lines) == 3, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(json.loads(line.removeprefix("SHOWN ")) for line in lines)


def test_the_schema_and_every_row_are_those_of_kafka(shown: dict[str, dict[str, Any]]) -> None:
    kafka, queue = shown["kafka"], shown["lakequeue"]
    assert queue["schema"] == kafka["schema"]
    assert len(kafka["everything"]) == 200
    assert queue["everything"] == kafka["everything"]
    assert queue["part"] == kafka["part"]
    assert len(queue["part"]) > 8


def test_a_stream_copies_in_batches_as_it_does_with_kafka(shown: dict[str, dict[str, Any]]) -> None:
    kafka, queue = shown["kafka"], shown["lakequeue"]
    assert queue["copied"] == kafka["copied"]
    assert len(queue["copied"]) == 200
    assert sum(queue["batches"]) == sum(kafka["batches"]) == 200
    assert max(queue["batches"]) <= 90


def test_what_kafka_refuses_is_refused(shown: dict[str, dict[str, Any]]) -> None:
    verdicts = [
        {name: said for name, said in run.items() if said in {"taken", "refused"}}
        for run in (
            {k: v for k, v in shown[which].items() if isinstance(v, str)}
            for which in ("kafka", "lakequeue")
        )
    ]
    assert verdicts[0] == verdicts[1]
    assert set(verdicts[1].values()) == {"refused"}
    assert len(verdicts[1]) == 7


def test_a_kafka_topic_is_streamed_in_with_its_partitions_offsets_and_times(
    shown: dict[str, dict[str, Any]],
) -> None:
    streamed = shown["stream_in"]
    assert len(streamed["kafka"]) == 200
    assert streamed["lakequeue"] == streamed["kafka"]
    (batches, rows), (again, repeated), nothing = streamed["runs"]
    assert (batches >= 3, rows) == (True, 200)
    assert (again, 0 < repeated <= 90) == (1, True)
    assert nothing == [0, 0]
