"""What a consumer tells of traces: a span for what a poll brings, and one for each settlement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakequeue.client.message import Message
from lakequeue.tracing import spans
from lakequeue.tracing.context import in_record
from lakequeue.tracing.spans import Tracing


def received(group: str, records: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """Records have come; the poll took so long. One that brings none is not worth a span."""
    if not records or spans.tracer() is None:
        return
    spans.passed(
        "receive",
        _only({record["topic"] for record in records}),
        "CLIENT",
        seconds,
        type_="receive",
        links=map(in_record, records),
        attributes=_said(group, len(records)),
    )


def settling(group: str, messages: Sequence[Message], does: Collection[str] = ("ack",)) -> Tracing:
    """The span of a request that settles these; `does`: what is said of them."""
    if spans.tracer() is None:
        return spans.NOTHING
    return spans.span(
        _only(set(does)) or "settle",
        _only({message.topic for message in messages}),
        "CLIENT",
        type_="settle",
        links=(message.trace for message in messages),
        attributes=_said(group, len(messages)),
    )


def _only(names: set[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _said(group: str, count: int) -> dict[str, str | int]:
    return {"messaging.consumer.group.name": group, "messaging.batch.message_count": count}
