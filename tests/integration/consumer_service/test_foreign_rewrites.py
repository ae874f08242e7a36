"""Groups over a log that delta-rs has rewritten. What Spark does: `tests/integration/spark`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from deltalake import DeltaTable

from coordination.embedded import EmbeddedZooKeeper
from tests.support.data.log_builder import fresh_root
from tests.support.faults.foreign import CALLS, as_of_earlier_release
from tests.support.services.consumer_node import NodeProcess
from tests.support.services.rewritten import (
    GONE,
    expected,
    in_browser,
    in_files,
    in_group,
    queue_of,
)


def deletes(log: str) -> None:
    some = ", ".join(map(str, sorted(GONE)))
    DeltaTable(log).delete(f'"partition" = 0 AND "offset" IN ({some})')


@pytest.mark.parametrize("name", ["delete", "delta-rs compact", "delta-rs append"])
def test_each_record_comes_once_in_order_and_lag_goes_to_0(
    zookeeper: EmbeddedZooKeeper,
    start_node: Callable[..., NodeProcess],
    tmp_path: Path,
    name: str,
) -> None:
    root = fresh_root(str(tmp_path))
    queue, topic = queue_of(root, zookeeper)
    as_of_earlier_release(root.store, "log")
    (deletes if name == "delete" else CALLS[name])(f"{root.uri}/log")
    gone = GONE if name == "delete" else set()
    wanted = expected(gone)
    assert in_files(root, topic) == wanted
    url = start_node(queue).url
    assert in_browser(url) == wanted
    count = sum(map(len, wanted.values()))
    assert in_group(url, topic, "stream", count) == wanted
    assert in_group(url, topic, "queue", count) == wanted
    metrics = httpx2.get(f"{url}/metrics", timeout=30).text
    assert f"lakequeue_consumer_gap_offsets {float(len(gone))}" in metrics
    if gone:
        missing = httpx2.get(f"{url}/v1/topics/orders/partitions/0/records/17", timeout=30)
        assert (missing.status_code, missing.json()["code"]) == (404, "unknown_record")
