"""Which children a layout has, and how they are started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakequeue_cli.supervisor.plan import (
    Drain,
    DriverReady,
    HttpReady,
    Layout,
    ZooKeeperPorts,
    ZooKeeperReady,
)

ALONE = (ZooKeeperPorts(2181),)
THREE = tuple(ZooKeeperPorts(n, n + 1, n + 2) for n in (21, 31, 41))


def layout(
    zookeeper: str | None = None,
    drivers: int = 1,
    servers: tuple[ZooKeeperPorts, ...] = ALONE,
) -> Layout:
    return Layout(
        root="/data/q",
        work_dir=Path("/data/q/_work"),
        host="127.0.0.1",
        ingest_ports=(8080,),
        consumer_ports=(8081, 9081),
        driver_ports=tuple(range(8082, 8082 + drivers)),
        zookeeper=zookeeper,
        zookeeper_ports=servers,
        extra={"driver-1": ("--driver-memory", "2g")},
    )


def test_the_embedded_ensemble_is_a_child_and_an_external_one_is_not() -> None:
    embedded = [child.name for child in layout().children()]
    external = [child.name for child in layout(zookeeper="zk:2181").children()]
    assert embedded == ["zookeeper", "driver-1", "ingest-1", "consumer-1", "consumer-2"]
    assert external == embedded[1:]
    assert layout().zookeeper_hosts == "127.0.0.1:2181"
    assert layout(zookeeper="zk:2181").zookeeper_hosts == "zk:2181"


def test_every_child_is_told_the_root_the_ensemble_and_its_name() -> None:
    for child in layout(zookeeper="zk:2181", drivers=2).children():
        command = " ".join(child.command)
        assert f"--root /data/q --zookeeper zk:2181 --node {child.name}" in command
        assert "--die-with-parent" in command


def test_probes_point_at_what_the_child_was_given() -> None:
    children = {child.name: child for child in layout().children()}
    assert children["consumer-2"].probe == HttpReady("http://127.0.0.1:9081/readyz")
    assert children["driver-1"].probe == DriverReady(Path("/data/q/_work/driver-driver-1.json"))
    assert "--port 9081" in " ".join(children["consumer-2"].command)
    assert children["driver-1"].command[-2:] == ("--driver-memory", "2g")


def test_ingest_is_drained_first_and_the_ensemble_last() -> None:
    ranks = {child.name: child.drain for child in layout().children()}
    assert sorted(ranks, key=lambda name: ranks[name])[0] == "ingest-1"
    assert ranks["ingest-1"] < ranks["driver-1"] < ranks["consumer-1"] < ranks["zookeeper"]
    assert ranks["zookeeper"] is max(Drain)


def test_an_ensemble_is_three_children_that_know_each_other() -> None:
    cluster = layout(servers=THREE)
    children = {child.name: child for child in cluster.children()}
    assert list(children)[:4] == ["zookeeper-1", "zookeeper-2", "zookeeper-3", "driver-1"]
    assert cluster.zookeeper_hosts == "127.0.0.1:21,127.0.0.1:31,127.0.0.1:41"
    servers = "1=127.0.0.1:22:23,2=127.0.0.1:32:33,3=127.0.0.1:42:43"
    command = " ".join(children["zookeeper-2"].command)
    assert f"--port 31 --number 2 --servers {servers}" in command
    assert children["zookeeper-2"].probe == ZooKeeperReady(31)
    assert f"--zookeeper {cluster.zookeeper_hosts} " in " ".join(children["ingest-1"].command)


def test_nodes_have_urls_by_name() -> None:
    assert layout().urls == {
        "ingest-1": "http://127.0.0.1:8080",
        "consumer-1": "http://127.0.0.1:8081",
        "consumer-2": "http://127.0.0.1:9081",
    }


def test_the_console_is_told_of_the_gateway() -> None:
    both = replace(layout(), console=("127.0.0.1", 8083), sqs=("127.0.0.1", 9324))
    commands = {child.name: " ".join(child.command) for child in both.children()}
    assert "--sqs-url http://127.0.0.1:9324" in commands["console"]
    alone = replace(layout(), console=("127.0.0.1", 8083))
    assert "--sqs-url" not in " ".join(alone.children()[-1].command)


def test_an_sqs_gateway_is_a_child_if_it_has_a_place() -> None:
    (child,) = [c for c in replace(layout(), sqs=("127.0.0.1", 9324)).children() if c.name == "sqs"]
    command = " ".join(child.command)
    assert "sqs_gateway --root /data/q --host 127.0.0.1 --port 9324" in command
    assert "--consumer-url http://127.0.0.1:8081,http://127.0.0.1:9081" in command
    assert child.probe == HttpReady("http://127.0.0.1:9324/healthz")
    assert not child.beside, "whoever asked for it waits until it is there"
