"""The trace of a request becomes that of those of its records that have none."""

from __future__ import annotations

from lakequeue.tracing.context import TraceContext
from lakequeue.wire import MAX_HEADERS
from queue_rules.produce.rows import Headers, Request
from queue_rules.produce.traces import put_trace, traces_of
from queue_rules.produce.validation import Limits, columns_of

TRACE = TraceContext("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1")
OWN = {"traceparent": "00-11111111111111111111111111111111-2222222222222222-00"}
LIMITS = Limits(partitions=1, partitioner="crc32", max_record_bytes=100, max_records=10)


def test_records_without_headers_get_it() -> None:
    rows = columns_of([{"value": "a"}, {"value": "b" * 100}], LIMITS)
    put_trace(rows, TRACE)
    assert rows.headers == [TRACE.headers()] * 2
    more = len("traceparent") + 55 + len("tracestate") + 3
    assert rows.sizes == [1 + more, 100 + more]
    assert list(traces_of([Request("t", rows)])) == [TRACE, TRACE]


def test_a_record_that_names_its_own_keeps_it_also_if_it_is_none() -> None:
    records = [
        {"value": 1, "headers": OWN},
        {"value": 1, "headers": {"traceparent": "?"}},
        {"value": 1, "headers": {"a": "b"}},
    ]
    rows = columns_of(records, LIMITS)
    put_trace(rows, TRACE)
    a: Headers = [("a", b"b")]
    assert rows.headers is not None
    assert rows.headers[0] == [("traceparent", OWN["traceparent"].encode())]
    assert rows.headers[1] == [("traceparent", b"?")]
    assert rows.headers[2] == a + TRACE.headers()
    own = TraceContext(OWN["traceparent"])
    assert list(traces_of([Request("t", rows)])) == [own, None, TRACE]


def test_a_record_without_room_for_more_headers_is_sent_as_it_is() -> None:
    roomy = Limits(1, "crc32", 10_000, 10)
    full = {f"h{n}": "" for n in range(MAX_HEADERS - 1)}
    rows = columns_of([{"value": 1, "headers": full}], roomy)
    put_trace(rows, TRACE)
    assert rows.headers is not None
    assert len(rows.headers[0]) == MAX_HEADERS - 1


def test_a_record_of_the_largest_size_can_carry_a_trace() -> None:
    rows = columns_of([{"value": "v" * 100, "headers": OWN}], LIMITS)
    assert rows.sizes == [100]
