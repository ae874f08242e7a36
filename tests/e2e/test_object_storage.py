"""The whole queue on an S3 server: every process real, nothing on the local disk but work files."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import httpx2
import pytest

from lakequeue import Consumer, Producer
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from tests.support.services.s3 import BUCKET, S3Server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(300),
]
RECORDS = 300


def test_records_go_through_a_bucket_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Server() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        root = f"s3://{BUCKET}/queue"
        options = ClusterOptions(root=root, work_dir=tmp_path / "work")
        with Cluster(options) as cluster:
            cluster.wait_ready()
            with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=30) as admin:
                admin.create_topic("orders", partitions=2)
            with Producer(cluster.ingest_urls) as producer:
                for n in range(RECORDS):
                    producer.send("orders", n, partition=n % 2)
            with Consumer("orders", group="g", urls=cluster.consumer_urls) as consumer:
                got = []
                for message in islice(consumer, RECORDS):
                    got.append((message.partition, message.offset, message.value))
                    message.ack()
            ready = httpx2.get(f"{cluster.driver_urls[0]}/readyz", timeout=30)
            assert ready.status_code == 200, ready.text
        expected = [(p, o, 2 * o + p) for p in range(2) for o in range(RECORDS // 2)]
        assert sorted(got) == expected
        found = server.store("queue").sizes("")
        assert {path.split("/")[0] for path in found} >= {"inbox", "log", "journal", "topics"}
    left = [path.name for path in (tmp_path / "work").rglob("*.parquet")]
    assert left == [], "no record is on the local disk"
