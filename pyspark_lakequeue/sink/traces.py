"""The span of a write, in whatever process of Spark commits it.

Spark runs tasks and commits in Python processes of its own, which nobody has instrumented. So they
begin to trace themselves, if the variables of OpenTelemetry reach them (docs/traces.md). They may
be ended at any time: each span is sent before the commit returns, or dropped after three seconds.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakequeue.tracing import export, spans
from lakequeue.tracing.context import TraceContext, in_headers

if TYPE_CHECKING:
    import pyarrow as pa

_LOOKED_AT = 512
"""Rows of a file whose headers are looked at."""
_exporting: export.Exporting | None = None


def is_on() -> bool:
    """Whether this process traces; it begins to if it is told to."""
    global _exporting
    if _exporting is None:
        _exporting = export.start("spark", platform.node())
    return spans.tracer() is not None


def traces_in(rows: pa.Table) -> list[TraceContext]:
    """Traces of the first rows of a file."""
    if not is_on():
        return []
    found: dict[TraceContext, None] = {}
    for headers in rows["headers"].slice(0, _LOOKED_AT).to_pylist():
        trace = in_headers((one["key"], one["value"]) for one in headers or ())
        if trace is not None:
            found[trace] = None
        if len(found) == spans.MOST_LINKS:
            break
    return list(found)


def wrote(
    topic: str | None,
    rows: int,
    seconds: float,
    links: Iterable[TraceContext],
    error: BaseException | None = None,
) -> None:
    """A write is committed, or failed."""
    if not is_on() or _exporting is None:
        return
    spans.passed(
        "write",
        topic,
        "CLIENT",
        seconds,
        type_="send",
        links=links,
        attributes={"messaging.batch.message_count": rows},
        error=error,
    )
    _exporting.flush()
