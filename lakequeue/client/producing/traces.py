"""What a producer tells of traces: a span for each record that is made, one for each request."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakequeue.client.producing.outgoing import Outgoing, header_pairs
from lakequeue.client.producing.record_options import HeadersIn
from lakequeue.tracing import spans
from lakequeue.tracing.context import TraceContext, has_parent, in_headers
from lakequeue.tracing.spans import Tracing
from lakequeue.wire import MAX_HEADERS


def may_trace() -> bool:
    """Whether `created` is worth calling: a program that traces has imported OpenTelemetry."""
    return spans.API in sys.modules


def created(
    topic: str, headers: HeadersIn, client: str, partition: int | None
) -> tuple[HeadersIn, TraceContext | None]:
    """The headers of a record that is made now, with its trace, and that trace.

    A record whose application gave it a `traceparent` keeps that. Costs next to nothing in a
    program that does not trace.
    """
    if spans.tracer() is None and spans.current() is None:
        return headers, None
    pairs = header_pairs(headers)
    if has_parent(pairs):
        return headers, in_headers(pairs)
    trace = spans.created(topic, client, partition)
    # No send may fail because its program traces: without room it goes on without.
    if trace is None or len(pairs) + len(trace.headers()) > MAX_HEADERS:
        return headers, None
    return [*pairs, *trace.headers()], trace


def sending(records: Sequence[Outgoing], client: str) -> Tracing:
    """The span of a request with these records, linked with what each of them was made in."""
    if spans.tracer() is None:
        return spans.NOTHING
    topics = {record.topic for record in records}
    return spans.span(
        "send",
        topics.pop() if len(topics) == 1 else None,
        "CLIENT",
        type_="send",
        links=(record.trace for record in records),
        attributes={
            "messaging.batch.message_count": len(records),
            "messaging.client.id": client,
        },
    )
