"""Redrive with real nodes: killed at each step, chosen by headers and time, at a rate."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx2
import pytest
from deltalake import DeltaTable

from jobs.command_line.options import Exit
from lakequeue import Admin, Producer, Wanted
from lakequeue.errors import InvalidRequest, UnknownTopic
from lakequeue.steps import Step
from lakequeue.wire import DeadLetterHeader
from tests.support.data.order_truth import judge
from tests.support.kinds import one_now
from tests.support.runs.erase_process import run_erase
from tests.support.services.consumer_node import NodeProcess
from tests.support.services.small_cluster import Cluster
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.timeout(400)
STEPS = [step for step in Step if step.startswith("transform.")]
DLQ = "in.dlq"
DEAD = 40
START = 1_600_000_000_000_000


def filled(cluster: Cluster) -> Cluster:
    """DEAD records of `in` in its dead-letter topic: values from 1000, every fourth expired."""
    cluster.ingest.create(DLQ, partitions=2)
    with Producer(cluster.ingest_url, acks="ordered") as producer:
        for n in range(DEAD):
            headers = {
                DeadLetterHeader.TOPIC: "in",
                DeadLetterHeader.PARTITION: str(n % 2),
                DeadLetterHeader.REASON: "expired" if n % 4 == 0 else "max_attempts",
                "mine": "kept",
            }
            producer.send(
                DLQ, 1000 + n, partition=n % 2, headers=headers, timestamp=START + n, key=f"k{n}"
            )
    return cluster


@pytest.fixture
def dead(cluster: Cluster) -> Cluster:
    """A cluster with them."""
    return filled(cluster)


def back(cluster: Cluster) -> list[dict[str, Any]]:
    """What was sent back, in the order of the values."""
    rows = cluster.rows("in")
    return sorted((r for r in rows if int(r["value"]) >= 1000), key=lambda r: int(r["value"]))


def admin(cluster: Cluster) -> Admin:
    return Admin(cluster.ingest_url, cluster.node.url)


@pytest.mark.parametrize("step", one_now(STEPS))
def test_killed_at_a_step_each_dead_record_comes_back_once(dead: Cluster, step: Step) -> None:
    urls = ("--url", dead.ingest_url, "--consumer-url", dead.node.url)
    only = ("-H", f"{DeadLetterHeader.REASON}=max_attempts")
    killed = dead.start("redrive_process", "--crash-at", f"{step}:1", DLQ, *urls, *only)
    assert killed.wait(120) == -signal.SIGKILL
    again = dead.start("redrive_process", "--crash-at", "", DLQ, *urls, *only)
    assert again.wait(120) == 0
    assert [int(r["value"]) - 1000 for r in back(dead)] == [n for n in range(DEAD) if n % 4]
    # What was not wanted then is there for the next one, which takes the rest and nothing twice.
    rest = dead.start("redrive_process", "--crash-at", "", DLQ, *urls, "--json")
    assert rest.wait(120) == 0
    rows = back(dead)
    assert [int(r["value"]) - 1000 for r in rows] == list(range(DEAD))
    for n, row in enumerate(rows):
        assert (row["partition"], row["key"]) == (n % 2, f"k{n}".encode())
        assert row["headers"] == [{"key": "mine", "value": b"kept"}]
    judge(dead.queue.root)


def test_large_dead_records_go_back_in_as_many_requests_as_it_takes(own_cluster: Cluster) -> None:
    cluster = own_cluster  # every look into a log that others share would read them
    count, size = 24, 1_000_000
    cluster.ingest.create(DLQ, partitions=2)
    with Producer(cluster.ingest_url, acks="ordered") as producer:
        for n in range(count):
            producer.send(
                DLQ, b"%d." % n + bytes(size), partition=0, headers={DeadLetterHeader.TOPIC: "out"}
            )
    with admin(cluster) as client:
        # While it waits, more than one poll comes in.
        assert client.redrive(DLQ, rate=20).redriven == count
    rows = cluster.rows("out")
    assert sorted(int(r["value"].split(b".")[0]) for r in rows) == list(range(count))


def test_chosen_by_time_and_at_a_rate(dead: Cluster) -> None:
    before = audited(dead)
    with admin(dead) as client:
        began = time.monotonic()
        done = client.redrive(DLQ, wanted=Wanted(since=START + 10, until=START + 20), rate=20)
        took_s = time.monotonic() - began
        assert (done.redriven, done.kept, done.without_topic) == (10, DEAD - 10, 0)
        # In each partition up to the last that was chosen: 10 records of 20.
        assert took_s >= 20 / 20
        assert [int(r["value"]) - 1000 for r in back(dead)] == list(range(10, 20))
        nothing = client.redrive(DLQ, wanted=Wanted({"mine": "other"}))
        assert (nothing.redriven, nothing.kept) == (0, DEAD - 10)
        assert client.redrive(DLQ).redriven == DEAD - 10
        assert client.redrive(DLQ).looked_at == 0
    assert [int(r["value"]) - 1000 for r in back(dead)] == list(range(DEAD))
    # Each redrive is in the audit by what it sent, though it makes no call that says so.
    audited_now = partial(audited_since, dead, before)
    wait_for(lambda: audited_now()["redriven to in"] == DEAD, "the audit has them all")
    assert audited_now()["kept behind the others"] > 0


def audited_since(cluster: Cluster, before: Counter[str]) -> Counter[str]:
    """What has come since."""
    return audited(cluster) - before


def audited(cluster: Cluster) -> Counter[str]:
    """What the audit says of records of the dead-letter topic: records of each destination."""
    rows = DeltaTable(f"{cluster.queue.root.uri}/audit").to_pyarrow_table().to_pylist()
    counts: Counter[str] = Counter()
    for row in rows:
        if row["name"] == DLQ and row["call"] == "POST /v1/records":
            counts[row["detail"]] += row["count"]
    return counts


def test_without_a_topic_to_go_back_to_it_stays(dead: Cluster) -> None:
    with admin(dead) as client:
        client.delete_topic("in")
        done = client.redrive(DLQ)
        assert (done.redriven, done.kept, done.without_topic) == (0, 0, DEAD)
        client.create_topic("in", partitions=1)
        assert client.redrive(DLQ).redriven == DEAD
    assert len(back(dead)) == DEAD


def run_job(cluster: Cluster, *args: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of the scheduled job."""
    job = start_job(cluster, *args)
    said, _ = job.communicate(timeout=120)
    return job.returncode, json.loads(said) if said else {}


def start_job(cluster: Cluster, *args: str) -> subprocess.Popen[str]:
    urls = ("--url", cluster.ingest_url, "--consumer-url", cluster.node.url)
    return cluster.start("jobs.dead_letters", *urls, "--json", *args)


def test_the_scheduled_job_does_what_its_dry_run_says(dead: Cluster) -> None:
    chosen = ("-H", f"{DeadLetterHeader.REASON}=expired", "--since", str(START // 1000))
    would = {
        DLQ: {"redriven": DEAD // 4, "kept": DEAD - DEAD // 4, "without_topic": 0, "homeless": 0}
    }
    assert run_job(dead, "--dry-run", *chosen) == (
        0,
        {"job": "jobs.dead_letters", "dry_run": True, "topics": would},
    )
    assert back(dead) == []
    assert run_job(dead, *chosen)[1]["topics"] == would
    rest = {DLQ: {"redriven": DEAD - DEAD // 4, "kept": 0, "without_topic": 0, "homeless": 0}}
    assert run_job(dead, "--dry-run")[1]["topics"] == rest
    assert run_job(dead, "--topic", DLQ)[1]["topics"] == rest
    assert [int(r["value"]) - 1000 for r in back(dead)] == list(range(DEAD))
    assert run_job(dead, "--dry-run")[1]["topics"][DLQ]["redriven"] == 0
    code, report = run_job(dead, "--topic", "nowhere", "--topic", DLQ)
    assert code == Exit.FAILED
    assert "nowhere" in report["topics"]["nowhere"]["failed"]
    assert report["topics"][DLQ]["redriven"] == 0
    assert run_job(dead, "--since", "yesterday")[0] == Exit.USAGE


def test_the_job_killed_and_then_started_twice_at_once_sends_each_back_once(dead: Cluster) -> None:
    killed = start_job(dead, "--rate", "10", "--crash-at", f"{Step.TRANSFORM_COUNTED}:2")
    assert killed.wait(120) == -signal.SIGKILL
    both = [start_job(dead, "--rate", "20") for _ in range(2)]
    assert [job.wait(120) for job in both] == [0, 0]
    assert [int(r["value"]) - 1000 for r in back(dead)] == list(range(DEAD))
    judge(dead.queue.root)


def by_http(url: str, **asked: Any) -> dict[str, int]:
    """Ask until there is no more; the sums."""
    sums = {"redriven": 0, "kept": 0, "without_topic": 0, "homeless": 0}
    ends = None
    while True:
        body = asked if ends is None else asked | {"end_offsets": ends}
        answer = httpx2.post(f"{url}/v1/topics/{DLQ}/redrive", json=body, timeout=90)
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert said["end_offsets"] == (ends or said["end_offsets"])
        assert sum(said[name] for name in sums) <= asked.get("max", 1_000)
        sums = {name: count + said[name] for name, count in sums.items()}
        ends = said["end_offsets"]
        if not said["more"]:
            return sums


def test_by_http_a_part_at_a_time_and_what_is_kept_is_not_met_again(dead: Cluster) -> None:
    reason = {"headers": {DeadLetterHeader.REASON: "expired"}}
    expired = DEAD // 4
    found = by_http(dead.node.url, max=15, **reason)
    # They are all in partition 0, every other one, and the last but one there is the last of them.
    assert found == {"redriven": expired, "kept": expired - 1, "without_topic": 0, "homeless": 0}
    assert [int(r["value"]) - 1000 for r in back(dead)] == list(range(0, DEAD, 4))
    assert by_http(dead.node.url)["redriven"] == DEAD - expired
    assert by_http(dead.node.url)["redriven"] == 0
    assert [int(r["value"]) - 1000 for r in back(dead)] == list(range(DEAD))
    for body, status in (({"max": 0}, 422), ({"rate": 1}, 422), ({"end_offsets": ["x"]}, 422)):
        path = f"{dead.node.url}/v1/topics/{DLQ}/redrive"
        assert httpx2.post(path, json=body).status_code == status
    before = httpx2.post(path, json={"end_offsets": [10**9], "wait_ms": 0}, timeout=60).json()
    assert not before["more"], "ends that a topic of this name had which is gone are never reached"
    unknown = httpx2.post(f"{dead.node.url}/v1/topics/nowhere/redrive", json={}, timeout=60)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_topic")


def test_by_http_a_node_killed_in_the_middle_and_asked_again_sends_each_back_once(
    dead: Cluster, start_node: Callable[..., NodeProcess]
) -> None:
    dies = start_node(dead.queue, "dies", crash_at=f"{Step.TRANSFORM_COUNTED}:1")
    with pytest.raises(httpx2.RequestError):
        httpx2.post(f"{dies.url}/v1/topics/{DLQ}/redrive", json={}, timeout=90)
    assert 0 < len(back(dead)) < DEAD, "some of it counts, and nobody was told"
    found = by_http(dead.node.url)
    assert 0 < found["redriven"] < DEAD
    assert [int(r["value"]) - 1000 for r in back(dead)] == list(range(DEAD))
    judge(dead.queue.root)


def test_bad_redrives_are_refused(dead: Cluster) -> None:
    with admin(dead) as client:
        with pytest.raises(UnknownTopic):
            client.redrive("nowhere")
        with pytest.raises(InvalidRequest, match="rate"):
            client.redrive(DLQ, rate=0)


def test_a_dead_record_that_was_erased_is_passed_and_not_put_behind_the_others(
    own_cluster: Cluster,
) -> None:
    dead = filled(own_cluster)  # nobody can judge the log afterwards
    root = dead.queue.root
    assert run_erase(root, DLQ, "key = 'k3'")["records"] == 1
    with admin(dead) as client:
        done = client.redrive(DLQ)
    assert (done.redriven, done.kept, done.without_topic) == (DEAD - 1, 0, 0)
    assert len(dead.rows(DLQ)) == DEAD
    assert [int(r["value"]) - 1000 for r in back(dead)] == [n for n in range(DEAD) if n != 3]
