"""Processes of a cluster: ZooKeepers that become more and fewer, and roles run from one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coordination.embedded import answers, free_port
from coordination.groups.membership import ensure_group, group_config, groups
from coordination.zookeeper.session import Session
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.root import QueueRoot
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
PROJECT = Path(__file__).parents[3]
RUN = (sys.executable, "-m", "lakequeue_cli.app", "run")


def test_what_zookeeper_keeps_stays_when_one_server_becomes_three_and_one_again(
    tmp_path: Path,
) -> None:
    root = str(tmp_path / "root")
    for number, servers in enumerate((1, 3, 3, 1)):
        options = ClusterOptions(
            root=root, zookeepers=servers, ingest_nodes=0, consumer_nodes=0, drivers=0
        )
        with Cluster(options) as cluster:
            cluster.wait_ready()
            assert len(cluster.children) == servers
            queue_id = QueueRoot.open(root).queue_id
            session = Session(cluster.zookeeper, queue_id, "onlooker", cluster.coordination)
            session.start()
            assert groups(session) == [f"g{n}" for n in range(number)]
            ensure_group(session, f"g{number}", "queue", {"max_attempts": 3 + number})
            kept = group_config(session, "g0")
            assert kept is not None
            assert kept.options == {"max_attempts": 3}
            session.stop()


def test_a_role_is_run_from_the_file_and_what_differs_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    config = tmp_path / "cluster.toml"
    config.write_text(f'[server]\nport = {port}\ndata_dir = "{tmp_path}/nowhere"\n')
    monkeypatch.setenv("LAKEQUEUE_SERVER__DATA_DIR", str(tmp_path / "here"))
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*RUN, "zookeeper", "--config", str(config)], cwd=PROJECT, stdout=log, stderr=log
        )
    try:
        wait_for(lambda: answers(port), "the server serves")
    finally:
        process.terminate()
        process.wait(30)
    assert (tmp_path / "here" / "zoo.cfg").exists()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("ingest", "--config", "gone.toml"), 2, "the settings file"),
        (("zookeeper", "--number", "2"), 3, "is not a server of an ensemble"),
        (("broker",), 2, "broker"),
    ],
)
def test_what_cannot_be_run_is_said(
    options: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    done = subprocess.run(
        [*RUN, *options], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
