"""What a program that traces tells: its spans, their links, and nothing that stands in a record."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from lakequeue import Consumer
from lakequeue.errors import LakequeueError
from lakequeue.testing import MemoryQueue
from lakequeue.tracing import spans
from lakequeue.tracing.context import TraceContext, context_of
from lakequeue.wire import MAX_HEADERS
from tests.support.tracing.kept_spans import KeptSpans, kept_spans

OUTER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        yield queue


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptSpans]:
    with kept_spans(monkeypatch) as kept:
        yield kept


def linked(span: ReadableSpan) -> list[str]:
    """The spans that it is linked with."""
    return [f"{link.context.span_id:016x}" for link in span.links]


def span_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def send(queue: MemoryQueue, count: int, **options: object) -> None:
    with queue.producer(producer_id="tills") as producer:
        for n in range(count):
            producer.send("orders", {"secret": n}, key="hidden", **options)  # type: ignore[arg-type]


def test_a_record_is_followed_from_its_making_to_its_ack(
    queue: MemoryQueue, kept: KeptSpans
) -> None:
    send(queue, 3)
    with queue.consumer("orders", group="billing", stop_after=3) as consumer:
        for message in consumer:
            with message.processing():
                pass
            message.ack()
        consumer.commit()
    made = kept.named("create orders")
    assert [(s.kind.name, len(s.links)) for s in made] == [("PRODUCER", 0)] * 3
    assert dict(made[0].attributes or {}) == {
        "messaging.system": "lakequeue",
        "messaging.operation.name": "create",
        "messaging.operation.type": "create",
        "messaging.destination.name": "orders",
        "messaging.client.id": "tills",
    }
    everyone = [span_id(s) for s in made]
    for name, kind, type_ in (
        ("send orders", "CLIENT", "send"),
        ("receive orders", "CLIENT", "receive"),
        ("process orders", "CONSUMER", "process"),
        ("ack orders", "CLIENT", "settle"),
    ):
        found = kept.named(name)
        assert {s.kind.name for s in found} == {kind}
        assert {(s.attributes or {})["messaging.operation.type"] for s in found} == {type_}
        some = [one for s in found for one in linked(s)]
        assert set(some) <= set(everyone)
        assert name.startswith("ack") or sorted(some) == sorted(everyone)
    work = kept.named("process orders")[0]
    assert work.parent is not None
    assert f"{work.parent.span_id:016x}" == everyone[0]


def test_the_loop_of_the_page_works(queue: MemoryQueue, kept: KeptSpans) -> None:
    page = (Path(__file__).parents[4] / "docs" / "traces.md").read_text()
    (_, loop), *_ = (p.split("```python\n") for p in page.split("```\n") if "```python" in p)
    charged: list[object] = []

    def consumer(topic: str, group: str) -> Consumer:
        return queue.consumer(topic, group=group, stop_after=1)

    send(queue, 1)
    exec(loop, {"Consumer": consumer, "charge": charged.append})  # noqa: S102 -- of our own page
    assert charged == [{"secret": 0}]
    assert len(kept.named("process orders")) == 1


def test_no_span_holds_a_value_or_a_key(queue: MemoryQueue, kept: KeptSpans) -> None:
    queue.create_topic("strict", value_schema='{"type": "integer"}')
    send(queue, 2)
    with queue.producer() as producer:
        refused = producer.send("strict", "a-secret-value", key="a-hidden-key")
        with pytest.raises(LakequeueError):
            refused.result(10)
        producer.unacked()
        with pytest.raises(LakequeueError):
            producer.flush()
    failed = [s for s in kept.named("send strict") if not s.status.is_ok]
    assert [(s.attributes or {})["error.type"] for s in failed] == ["invalid_request"]
    said = json.dumps([json.loads(s.to_json()) for s in kept.all()])
    assert "secret" not in said
    assert "hidden" not in said


def test_a_record_is_made_in_the_span_that_its_program_is_in(
    queue: MemoryQueue, kept: KeptSpans
) -> None:
    with trace.get_tracer("app").start_as_current_span("checkout") as outer:
        send(queue, 1)
    (made,) = kept.named("create orders")
    assert made.parent is not None
    assert made.parent.span_id == outer.get_span_context().span_id


def test_a_trace_that_the_program_gives_is_kept(queue: MemoryQueue, kept: KeptSpans) -> None:
    send(queue, 1, headers={"traceparent": OUTER})
    send(queue, 1, headers={"traceparent": "no trace"})
    first, second = queue.records("orders")
    assert first.trace == TraceContext(OUTER)
    assert (second.trace, second.header("traceparent")) == (None, b"no trace")
    assert kept.named("create orders") == []
    assert linked(kept.named("send orders")[0]) == [OUTER[36:52]]


def test_a_record_full_of_headers_is_sent_without_a_trace(
    queue: MemoryQueue, kept: KeptSpans
) -> None:
    send(queue, 1, headers={f"h{n}": "" for n in range(MAX_HEADERS)})
    assert queue.records("orders")[0].trace is None


def test_links_of_one_span_are_bounded(kept: KeptSpans) -> None:
    many = [context_of(f"00-{n:032x}-{n:016x}-01") for n in range(1, 1_000)]
    with spans.span("send", "orders", "CLIENT", links=many * 2):
        pass
    assert len(kept.named("send orders")[0].links) == spans.MOST_LINKS


@pytest.mark.parametrize("imported", [True, False])
def test_a_program_that_does_not_trace_sends_what_it_sent_before(
    queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch, imported: bool
) -> None:
    if not imported:
        monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert spans.tracer() is None
    send(queue, 1)
    with queue.consumer("orders", group="billing", stop_after=1) as consumer:
        for message in consumer:
            with message.processing():
                assert message.headers == []


def test_a_program_that_only_carries_a_trace_on_hands_it_to_its_records(
    queue: MemoryQueue,
) -> None:
    assert spans.tracer() is None
    context = context_of(OUTER)
    assert context is not None
    within = trace.set_span_in_context(trace.NonRecordingSpan(spans._remote(context)))
    with trace.use_span(trace.get_current_span(within)):
        send(queue, 1)
    assert queue.records("orders")[0].trace == context
