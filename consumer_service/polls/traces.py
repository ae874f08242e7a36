"""Spans of what a node hands out and settles, if it traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from lakequeue.tracing import spans
from lakequeue.tracing.context import TraceContext, in_record
from serving.front.parking import Steps

T = TypeVar("T")


def handed_out(group: str, records: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """Records leave, so long after they were asked for. An answer without any is no span."""
    if not records or spans.tracer() is None:
        return
    topics = {record["topic"] for record in records}
    spans.passed(
        "fetch",
        topics.pop() if len(topics) == 1 else None,
        "SERVER",
        seconds,
        links=map(in_record, records),
        attributes={
            "messaging.consumer.group.name": group,
            "messaging.batch.message_count": len(records),
        },
    )


def settled(group: str, parent: TraceContext | None, steps: Steps[T]) -> Steps[T]:
    """Do it in a span: a part of the request that the client tells of."""
    if spans.tracer() is None:
        return (yield from steps)
    about = {"messaging.consumer.group.name": group}
    with spans.span("ack", None, "SERVER", type_="settle", parent=parent, attributes=about):
        return (yield from steps)
