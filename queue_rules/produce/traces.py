"""The trace of a request becomes that of its records. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lakequeue.tracing.context import TraceContext, has_parent, in_headers
from lakequeue.wire import MAX_HEADERS
from queue_rules.produce.rows import Request, Rows


def put_trace(rows: Rows, trace: TraceContext) -> None:
    """Give it to the records that say nothing of one, and have room for a header.

    It counts in their sizes from now on, after these were judged: no record is refused for it.
    """
    added = trace.headers()
    more = sum(len(name) + len(value or b"") for name, value in added)
    if rows.headers is None:
        rows.headers = [added] * len(rows)  # nobody changes a list of headers
        rows.sizes = [size + more for size in rows.sizes]
        return
    for i, headers in enumerate(rows.headers):
        if len(headers) + len(added) <= MAX_HEADERS and not has_parent(headers):
            rows.headers[i] = [*headers, *added]
            rows.sizes[i] += more


def traces_of(requests: list[Request]) -> Iterator[TraceContext | None]:
    """The traces of their records."""
    for request in requests:
        yield from map(in_headers, request.rows.headers or ())
