"""A Prometheus that watches a running queue gets what dashboard and alerts ask for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from lakequeue import Consumer, Producer
from lakequeue.client.admin import Admin
from lakequeue.metrics import ROLES
from lakequeue.metrics.every import EVERY
from lakequeue_cli.supervisor.cluster import Cluster
from tests.support.services.prometheus import DEPLOY, SCRAPE_S, Prometheus, prometheus
from tests.support.services.zookeeper import wait_for
from tools.dashboard import queries
from tools.prometheus import programs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
RECORDS = 50
_MAY_BE_EMPTY = (
    'outcome!="ok"',
    "refused_acks",
    "storage_errors",
    "maintenance_runs",  # the first run is due after ten minutes
    "put_aside",
    "undecodable",
    "dead_letters",  # none died, none was refused
    'status=~"5',
    "certificate",  # without TLS there is none
    "lakequeue_sqs_",  # there is no gateway
)
"""Of what did not happen there is no series."""


@pytest.fixture(scope="module")
def folder() -> Path:
    return programs()


@pytest.fixture(scope="module")
def worked(cluster: Cluster) -> Cluster:
    """A topic with records, a stream group that has consumed them, a queue group that has some."""
    with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=30) as admin:
        admin.create_topic("watched", partitions=2)
    with Producer(cluster.ingest_urls, producer_id="meter") as producer:
        for n in range(RECORDS):
            producer.send("watched", n, key=str(n))
    with Consumer("watched", group="watchers", urls=cluster.consumer_urls, from_="earliest") as c:
        for message in islice(c, RECORDS):
            message.ack()
    with Consumer(
        "watched", group="workers", urls=cluster.consumer_urls, mode="queue", from_="earliest"
    ) as c:
        next(iter(c)).ack()
    return cluster


@pytest.fixture(scope="module")
def watching(
    worked: Cluster, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    with prometheus(folder, worked.scraped_path, tmp_path_factory.mktemp("prom")) as running:
        targets = len(worked.ingest_urls + worked.consumer_urls + worked.driver_urls)
        wait_for(lambda: len(running.ask("up == 1")) == targets, every_s=0.2)
        # Two scrapes: a rate needs them.
        wait_for(
            lambda: bool(running.ask("rate(lakequeue_ingest_records_total[10s])")), every_s=0.2
        )
        yield running


def families(url: str) -> set[str]:
    text = httpx2.get(f"{url}/metrics", timeout=30).text
    found = text_string_to_metric_families(text)
    names = {f"{f.name}_total" if f.type == "counter" else f.name for f in found}
    return {name for name in names if name.startswith("lakequeue_")}


def test_each_role_exports_what_is_declared_and_nothing_else(worked: Cluster) -> None:
    of_role = {
        "ingest": worked.ingest_urls,
        "consumer service": worked.consumer_urls,
        "driver": worked.driver_urls,
    }
    for role, urls in of_role.items():
        declared = {metric.name for metric in (*EVERY, *ROLES[role])}
        for url in urls:
            assert families(url) == declared, url


def test_each_process_says_whether_it_is_ready(worked: Cluster) -> None:
    for url in (*worked.ingest_urls, *worked.consumer_urls, *worked.driver_urls):
        ready = httpx2.get(f"{url}/readyz", timeout=30)
        assert (ready.status_code, ready.json()["status"]) == (200, "ready"), ready.text
        assert ready.json()["reasons"] == []
        assert httpx2.get(f"{url}/healthz", timeout=30).json()["status"] == "alive"


@pytest.mark.parametrize("query", queries())
def test_a_query_of_the_dashboard_finds_something(watching: Prometheus, query: str) -> None:
    asked = query.replace("$__rate_interval", f"{10 * SCRAPE_S}s")
    if any(word in query for word in _MAY_BE_EMPTY):
        watching.ask(asked)
    else:
        # What leaders tell of the tables comes with their first look.
        wait_for(lambda: bool(watching.ask(asked)), every_s=0.2)


def test_the_numbers_are_those_of_what_was_done(watching: Prometheus) -> None:
    def value(query: str) -> float:
        found = watching.ask(query)
        return float(found[0]["value"][1]) if found else -1.0

    lag = 'sum(lakequeue_group_lag_records{topic="watched", group="%s"})'
    # Positions are folded every few seconds.
    wait_for(lambda: value(lag % "watchers") == 0, every_s=0.2)
    wait_for(lambda: value(lag % "workers") == RECORDS - 1, every_s=0.2)
    assert value("sum(lakequeue_ingest_records_total)") >= RECORDS
    assert value('sum(lakequeue_consumer_delivered_records_total{group="watchers"})') >= RECORDS
    wait_for(lambda: value("sum(lakequeue_ingest_unordered_records)") == 0, every_s=0.2)
    assert value('sum(lakequeue_leading{election="order"})') == 1
    assert value('sum(lakequeue_leading{election="controller"})') == 1
    assert value('max(lakequeue_nodes{kind="driver"})') == len(
        watching.ask('up{role="driver"} == 1')
    )


def test_alerts_can_be_asked_and_none_fires_on_a_queue_that_is_well(watching: Prometheus) -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            watching.ask(rule["expr"])
    assert watching.firing() == set()


@pytest.mark.parametrize(
    "arguments",
    [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")],
    ids=lambda arguments: arguments[1],
)
def test_promtool_accepts_our_files(folder: Path, arguments: tuple[str, ...]) -> None:
    subprocess.run([folder / "promtool", *arguments], cwd=DEPLOY, check=True, timeout=60)
