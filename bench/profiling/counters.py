"""What the processes count of themselves: events and their mean time, between two scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families

TIMES = (
    "lakequeue_ingest_request_seconds",
    "lakequeue_ingest_commit_seconds",
    "lakequeue_order_batch_seconds",
    "lakequeue_offsets_fold_seconds",
    "lakequeue_consumer_ack_seconds",
    "lakequeue_consumer_commit_seconds",
    "lakequeue_http_request_seconds",
    "lakequeue_storage_request_seconds",
)
Samples = dict[tuple[str, str], float]
"""Of a process: (name, labels) and its value; `_sum` and `_count` alone."""


def samples(text: str) -> Samples:
    """The sums and counts of times, out of what `/metrics` says."""
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name in TIMES:
            for sample in family.samples:
                if sample.name.endswith(("_sum", "_count")):
                    labels = ", ".join(f"{k} {v}" for k, v in sorted(sample.labels.items()))
                    found[sample.name, labels] = sample.value
    return found


def scraped(urls: Mapping[str, str]) -> dict[str, Samples]:
    """By process."""
    return {
        name: samples(httpx2.get(f"{url}/metrics", timeout=30).raise_for_status().text)
        for name, url in urls.items()
    }


def between(
    before: Mapping[str, Samples], after: Mapping[str, Samples], records: int
) -> list[dict[str, Any]]:
    """Events of each kind for 1,000 records, and their mean time in milliseconds."""
    rows = []
    for process, now in after.items():
        then = before.get(process, {})
        for (name, labels), count in now.items():
            if not name.endswith("_count"):
                continue
            total = (name.removesuffix("_count") + "_sum", labels)
            events = count - then.get((name, labels), 0.0)
            if events > 0:
                rows.append(
                    {
                        "process": process,
                        "metric": name.removesuffix("_count"),
                        "labels": labels,
                        "per_1000": round(events / records * 1_000, 1),
                        "mean_ms": round((now[total] - then.get(total, 0.0)) / events * 1e3, 2),
                    }
                )
    return rows
