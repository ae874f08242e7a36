"""What an SQS gateway counts."""

from __future__ import annotations

from lakequeue.metrics.declaring import FAST_S, counter, histogram
from lakequeue.metrics.front import FRONT

SQS_REQUESTS = counter(
    "sqs_requests_total",
    "requests of SQS clients, by operation and outcome: done, or the name of the error",
    "operation",
    "outcome",
)
SQS_SECONDS = histogram(
    "sqs_request_seconds",
    "time from the request to its answer, by operation; ReceiveMessage waits within that time",
    FAST_S,
    "operation",
)
SQS = (SQS_REQUESTS, SQS_SECONDS, *FRONT)
