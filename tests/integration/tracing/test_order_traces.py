"""The span of a batch: one for all its records, linked with some of their traces."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from jobs.ordering.order_job import OrderJob
from jobs.source.batch_manifest import BatchManifest
from lakequeue.records import Epoch
from lakequeue.settings import OrderSettings
from lakequeue.tracing import spans
from queue_tables.root import QueueRoot
from tests.support.data.order_truth import Inbox, judge
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer
from tests.support.tracing.kept_spans import kept_spans

BASE = 1_700_000_000_000_000


def fill(root: QueueRoot) -> None:
    """300 records with a trace each, one with none, and one with what is none."""
    topic_id = new_topic(root)
    parents = [f"00-{n:032x}-{n:016x}-01".encode() for n in range(1, 301)]
    headers = [[{"key": "traceparent", "value": one}] for one in [*parents, b"?", None]]
    records: list[dict[str, object]] = [
        {"topic_id": topic_id, "value": b"secret", "message_id": f"m{n}", "headers": some}
        for n, some in enumerate([*headers, []])
    ]
    Inbox(root, "n").commit(BASE, records)


def _read(orderer: Orderer, piece: BatchManifest) -> Any:
    return orderer.read(piece)


def order(root: QueueRoot, *, whole: bool) -> None:
    """By the job itself: no batch here is so large that Spark would write it."""
    orderer = Orderer(root, 1, whole=whole)
    job = OrderJob(root, OrderSettings(), None)
    job.warm()
    job.begin(Epoch(2))
    no_spark: Any = None
    job.process(no_spark, [partial(_read, orderer, piece) for piece in orderer.cut()])
    judge(root)


@pytest.mark.parametrize("whole", [True, False])
def test_a_batch_is_one_span_with_a_bounded_number_of_links(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    fill(root)
    with kept_spans(monkeypatch) as kept:
        order(root, whole=whole)
        (span,) = kept.all()
    assert (span.name, span.kind.name) == ("order", "INTERNAL")
    assert [link.context.span_id for link in span.links] == [*range(1, spans.MOST_LINKS + 1)]
    said = dict(span.attributes or {})
    assert (said["messaging.batch.message_count"], said["messaging.system"]) == (303, "lakequeue")
    assert "secret" not in span.to_json()
