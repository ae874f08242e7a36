"""What carries HTTP counts, in both services."""

from __future__ import annotations

from lakequeue.metrics.declaring import Kind, Metric, counter, gauge

FRONT_CONNECTIONS = gauge("front_connections", "connections that are open")
FRONT_CALLS = gauge(
    "front_calls", "requests that are being answered or wait for a thread, by kind of call", "kind"
)
FRONT_WAITING = gauge(
    "front_waiting_calls", "calls that wait without a thread (polls, sends for order)", "kind"
)
HTTP_SECONDS = Metric(
    "lakequeue_http_request_seconds",
    Kind.SUMMARY,
    "requests that were let in, and the time from the whole request to its answer, by call and "
    "status; calls that wait for records or for order wait within that time",
    ("call", "status"),
)
FRONT_REFUSED = counter(
    "front_refused_total",
    "connections and requests that were refused because a limit was reached: connections, "
    "address (connections of one), bodies or large heads (their budgets), calls, waits or answers "
    "(of a kind)",
    "limit",
    known=tuple(
        (limit,) for limit in ("connections", "address", "bodies", "calls", "waits", "answers")
    ),
)
ACCESS_REFUSED = counter(
    "access_refused_total",
    "requests refused because of the caller or its rights, by code of the error",
    "code",
)
ACCESS_PAUSES = counter(
    "access_pauses_total",
    "pauses of event streams whose caller has read as many bytes as its quota allows",
)
FRONT_LATE = counter(
    "front_deadlines_total",
    "connections that were ended because their client was too slow: headers, body, answer (it did "
    "not read), idle (between requests)",
    "deadline",
    known=(("headers",), ("body",), ("answer",), ("idle",)),
)
FRONT_BYTES = gauge(
    "front_budget_bytes",
    "bytes of a budget that are in use: bodies, large heads, or answers that are being built "
    "or not read yet",
    "budget",
)
FRONT_LIMITS = gauge("front_budget_limit_bytes", "size of a budget", "budget")
FRONT = (
    HTTP_SECONDS,
    FRONT_CONNECTIONS,
    FRONT_CALLS,
    FRONT_WAITING,
    FRONT_REFUSED,
    ACCESS_REFUSED,
    ACCESS_PAUSES,
    FRONT_LATE,
    FRONT_BYTES,
    FRONT_LIMITS,
)
