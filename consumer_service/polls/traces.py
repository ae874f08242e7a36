"""Spans of what a node hands out and settles, if it traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from lakequeue.tracing import spans
from lakequeue.tracing.context import TraceContext, in_record

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


def settled(group: str, parent: TraceContext | None, settle: Callable[[], T]) -> T:
    """Do it in a span: a part of the request that the client tells of."""
    about = {"messaging.consumer.group.name": group}
    with spans.span("ack", None, "SERVER", type_="settle", parent=parent, attributes=about):
        return settle()
