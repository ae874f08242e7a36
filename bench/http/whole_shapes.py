"""End to end by shape: the whole queue, with Spark, at 500 records/s of 1 kB.

For `bench.http.shapes`: what it measures of a consumer-service node alone, this measures of all
processes together, with one producer and one consumer of the SDK. A queue is started anew for each
shape. Producer, consumer and all services share the machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import latency
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions

SHAPES = ((1, 1), (1, 8), (1, 64), (1, 256), (10, 1), (100, 1))
"""(topics, partitions of each); the second one is what others are compared with."""
RATE, WARM_UP_S = 500, 15.0


def measured(seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each shape; milliseconds."""
    for topics, partitions in SHAPES:
        with (
            tempfile.TemporaryDirectory(prefix="bench-whole-") as folder,
            Cluster(ClusterOptions(root=str(Path(folder) / "queue"))) as cluster,
        ):
            cluster.wait_ready()
            with Admin(cluster.ingest_urls, cluster.consumer_urls) as admin:
                for name in latency.topic_names(topics):
                    admin.create_topic(name, partitions=partitions)
            found = latency.measure(
                cluster.ingest_urls[0],
                cluster.consumer_urls[0],
                Path(folder),
                RATE,
                seconds,
                WARM_UP_S,
                topics,
            )
        yield {"topics": topics, "partitions": partitions} | {
            f"{what}_{part}_ms": round(found[name][f"{part}_ms"], 1)
            for what, name in (("acknowledged", "acknowledged"), ("received", "end_to_end"))
            for part in ("p50", "p99")
        }
