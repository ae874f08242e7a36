"""Traces over real processes: a node of each service, and a collector that they send spans to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordination.zookeeper.notifications import Notifier
from lakequeue import Consumer, Producer
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import log_rows
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue
from tests.support.services.event_stream import listening
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.tracing.collector import Collector
from tests.support.tracing.kept_spans import kept_spans

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
ORIGIN = f"{TRACE}-{SPAN}"
EVENT = {"specversion": "1.0", "id": "1", "source": "/tills", "type": "sold", "data": 1}


@dataclass
class Traced:
    """A queue whose services trace."""

    collector: Collector
    ingest: IngestService
    node: NodeProcess
    queue: Queue

    def headers(self, topic: str) -> list[dict[str, bytes]]:
        """Headers of the records of a topic in the log, in their order."""
        rows = [row for row in log_rows(self.queue.root) if row["topic"] == topic]
        return [{h["key"]: h["value"] for h in row["headers"]} for row in rows]


@pytest.fixture
def traced(own_queue: Queue, start_node: Callable[..., NodeProcess]) -> Iterator[Traced]:
    with ExitStack() as stack:
        collector = stack.enter_context(Collector())
        ingest = stack.enter_context(
            IngestService(
                Path(own_queue.root.uri),
                "--zookeeper",
                own_queue.zookeeper.hosts,
                node="in-1",
                **collector.environment,
            )
        )
        notifier = Notifier(own_queue.session, "log").start()
        stack.callback(notifier.close)
        stack.enter_context(ordering(own_queue.root, notifier=notifier))
        node = start_node(own_queue, **collector.environment)
        yield Traced(collector, ingest, node, own_queue)


def test_a_trace_goes_with_the_record_to_its_consumer(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One set of processes for all of it: they take longest to start."""
    traced.ingest.create("orders", partitions=1)
    _a_request_hands_its_trace_to_its_records(traced)
    _what_is_no_trace_fails_no_send(traced)
    _the_client_and_the_nodes_tell_of_the_same_record(traced, monkeypatch)
    _a_stream_of_events_is_told_of(traced)
    told = traced.collector.everything()
    assert "secret" not in told
    assert "hidden" not in told


def _a_request_hands_its_trace_to_its_records(traced: Traced) -> None:
    http, collector = traced.ingest.http, traced.collector
    sent = http.post(
        "/v1/topics/orders/records?wait=ordered",
        json={"records": [{"value": "secret", "key": "hidden"}]},
        headers={"traceparent": PARENT, "tracestate": "a=1"},
    )
    assert sent.status_code == 200
    (ingest,) = collector.wait_for("ingest orders")
    assert (ingest.service, ingest.node) == ("lakequeue-ingest", "in-1")
    assert (ingest.span.trace_id.hex(), ingest.span.parent_span_id.hex()) == (TRACE, SPAN)
    assert ingest.links == {ORIGIN}
    assert ingest.span.kind == ingest.span.SPAN_KIND_SERVER
    event = EVENT | {"traceparent": PARENT[:-1] + "0"}
    for body, kind in ((event, "cloudevents"), ([event | {"id": "2"}], "cloudevents-batch")):
        answer = http.post(
            "/v1/topics/orders/records?wait=ordered",
            json=body,
            headers={"content-type": f"application/{kind}+json", "traceparent": PARENT},
        )
        assert answer.status_code == 200, answer.text
    in_log = traced.headers("orders")
    assert in_log[0] == {"traceparent": PARENT.encode(), "tracestate": b"a=1"}
    # The event says in which trace it was made; the request, who carried it.
    assert [one["traceparent"] for one in in_log[1:]] == [PARENT[:-1].encode() + b"0"] * 2


def _a_stream_of_events_is_told_of(traced: Traced) -> None:
    traced.ingest.create("streamed", partitions=1)
    body = {"records": [{"value": "secret", "headers": {"traceparent": PARENT}}]}
    assert traced.ingest.http.post("/v1/topics/streamed/records", json=body).status_code == 200
    topics = TopicStore(traced.queue.root)
    with HttpMember(traced.node.url, topics.get("streamed")) as member, listening(member) as events:
        assert len(events.records(1)) == 1
    (fetch,) = traced.collector.wait_for("fetch streamed")
    assert (fetch.service, fetch.links) == ("lakequeue-consumer", {ORIGIN})


def _what_is_no_trace_fails_no_send(traced: Traced) -> None:
    before = len(traced.headers("orders"))
    wrong = ["", "?", PARENT + "0", "00-" + "0" * 32 + f"-{SPAN}-01", "\xff" * 55, "x" * 5_000]
    for said in wrong:
        for headers, record in (
            ([(b"traceparent", said.encode("latin-1"))], {"value": 1}),
            ([], {"value": 1, "headers": {"traceparent": said}}),
        ):
            answer = traced.ingest.http.post(
                "/v1/topics/orders/records?wait=ordered",
                json={"records": [record]},
                headers=headers,
            )
            assert answer.status_code == 200, answer.text
    twice = [(b"traceparent", PARENT.encode()), (b"traceparent", PARENT.encode())]
    answer = traced.ingest.http.post(
        "/v1/topics/orders/records?wait=ordered", json={"records": [{"value": 1}]}, headers=twice
    )
    assert answer.status_code == 200, answer.text
    found = [one.get("traceparent") for one in traced.headers("orders")[before:]]
    kept = [None, *(said.encode() for said in wrong)]
    assert sorted({one or b"" for one in found}) == sorted({one or b"" for one in kept})


def _the_client_and_the_nodes_tell_of_the_same_record(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_url = str(traced.ingest.ready["url"])
    traced.ingest.create("traced", partitions=1)
    with kept_spans(monkeypatch) as kept:
        with Producer(ingest_url, acks="ordered") as producer:
            producer.send("traced", "secret", key="hidden").result(30)
        with Consumer("traced", group="billing", urls=traced.node.url, stop_after=1) as consumer:
            for message in consumer:
                seen = message.trace
                message.ack()
            consumer.commit()
        made, sent = kept.named("create traced")[0], kept.named("send traced")[0]
        acked = kept.named("ack traced")[0]
    assert made.context is not None
    assert sent.context is not None
    assert acked.context is not None
    origin = f"{made.context.trace_id:032x}-{made.context.span_id:016x}"
    assert seen is not None
    assert seen.traceparent.startswith(f"00-{origin}-")
    (ingest,) = traced.collector.wait_for("ingest traced")
    assert ingest.span.parent_span_id.hex() == f"{sent.context.span_id:016x}"
    assert ingest.links == {origin}
    (fetch,) = traced.collector.wait_for("fetch traced")
    assert (fetch.service, fetch.links) == ("lakequeue-consumer", {origin})
    assert fetch.attributes["messaging.consumer.group.name"] == "billing"
    (settled,) = traced.collector.wait_for("ack")
    assert settled.span.parent_span_id.hex() == f"{acked.context.span_id:016x}"
