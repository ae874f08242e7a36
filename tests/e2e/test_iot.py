"""The example of sensors and controllers, as people run it, while services are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from history_checker.load import wait_until
from lakequeue_cli.supervisor.cluster import Cluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(400),
]
PROJECT = Path(__file__).parents[2]
MORE = 15
ACTED = re.compile(r"#(\d+) \S+ at offset (\d+)")


class Plant:
    """Processes of the example, each with what it has printed."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._folder = folder
        self._environ = os.environ | {
            "IOT_INGEST_URLS": ",".join(cluster.ingest_urls),
            "IOT_CONSUMER_URLS": ",".join(cluster.consumer_urls),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, program: str, *args: str) -> None:
        with (self._folder / name).open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [sys.executable, f"examples/iot/{program}.py", *args],
                cwd=PROJECT,
                env=self._environ,
                stdout=out,
                stderr=out,
            )

    def end(self, name: str, number: signal.Signals = signal.SIGINT) -> int:
        """Send the signal; the exit code."""
        process = self._processes.pop(name)
        process.send_signal(number)
        return process.wait(60)

    def said(self, name: str) -> str:
        return (self._folder / name).read_text()

    def acted(self, *names: str) -> list[tuple[int, int]]:
        """(offset, number) of every reading that those controllers have printed."""
        return [(int(o), int(n)) for name in names for n, o in ACTED.findall(self.said(name))]

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


@contextmanager
def running(cluster: Cluster, folder: Path) -> Iterator[Plant]:
    plant = Plant(cluster, folder)
    try:
        yield plant
    finally:
        plant.close()


def logged(root: str, topic: str) -> list[tuple[int, int]]:
    """(offset, number) of every reading in the log, by offset."""
    table = DeltaTable(f"{root}/log").to_pyarrow_dataset()
    rows = table.to_table(columns=["offset", "value"], filter=ds.field("topic") == topic)
    return sorted((r["offset"], json.loads(r["value"])["n"]) for r in rows.to_pylist())


def each_once_in_order(
    cluster: Cluster, plant: Plant, sensor: str, topic: str, *controllers: str
) -> None:
    """End the sensor, and compare what it sent with the log and with what was acted on."""
    assert plant.end(sensor) == 0
    assert "not sent" not in plant.said(sensor)
    count = int(re.findall(r"stopped after (\d+) readings", plant.said(sensor))[0])
    expected = [(n - 1, n) for n in range(1, count + 1)]
    wait_until("all is ordered", lambda: len(logged(cluster.root, topic)) >= count)
    assert logged(cluster.root, topic) == expected
    wait_until("all is acted on", lambda: len(set(plant.acted(*controllers))) >= count)
    assert sorted(set(plant.acted(*controllers))) == expected
    for name in controllers:
        # What was not acknowledged when a controller or its node was killed comes once more.
        assert list(dict.fromkeys(plant.acted(name))) == sorted(set(plant.acted(name)))


def test_readings_go_on_each_once_in_order_whatever_is_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.wait_ready()
    with running(cluster, tmp_path) as plant:
        plant.start("temp", "sensor", "temp", "1", "0.1")
        plant.start("hum", "sensor", "hum", "2", "0.1")
        for name in ("first", "second"):
            plant.start(name, "controller", "temp_1")
        plant.start("third", "controller", "hum_2")

        def go_on(why: str) -> None:
            temp, hum = len(plant.acted("first", "second")), len(plant.acted("third"))
            wait_until(
                f"readings go on {why}",
                lambda: (
                    len(plant.acted("first", "second")) >= temp + MORE
                    and len(plant.acted("third")) >= hum + MORE
                ),
                90,
            )

        go_on("from the start")
        leader = cluster.leader()
        assert leader is not None
        cluster.kill(leader)
        go_on("after the order leader")
        working = max(("first", "second"), key=lambda name: max(plant.acted(name), default=(-1, 0)))
        assert plant.end(working, signal.SIGKILL) == -signal.SIGKILL
        go_on("after the controller that worked")
        cluster.kill("consumer-1")
        go_on("after a consumer service")
        cluster.kill("ingest-1")
        cluster.wait_ready()
        go_on("after the ingest")
        each_once_in_order(cluster, plant, "temp", "iot.temp_1", "first", "second")
        each_once_in_order(cluster, plant, "hum", "iot.hum_2", "third")
        others = {"first", "second", "third"} - {working}
        assert all(plant.end(name) == 0 for name in others)
