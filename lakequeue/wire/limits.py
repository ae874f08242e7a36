"""Media types, headers, default addresses and limits."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
GATHERED: Final = "lakequeue-gathered"
"""Header of a send whose sender has waited for more records already, and sends the next by the same
connection: its commit does not wait for more, if nobody else sends."""
PREFER: Final = "prefer"
"""Header of a request (RFC 7240)."""
MINIMAL: Final = "return=minimal"
"""Of a send: a client that has given the message ids need not be told them. Of a poll: nor the
assignment, if it is what the client was told before."""
NDJSON: Final = "application/x-ndjson"
"""One record object a line; the envelope fields then come as query parameters."""
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
"""Columns: value (required), key, partition, message_id, timestamp, headers,
deliver_at, delay_ms, ttl_ms."""
BESIDE: Final = "lakequeue"
"""In the metadata of an answer in columns: what JSON has beside the records."""
SSE: Final = "text/event-stream"
PROBLEM: Final = "application/problem+json"

DEFAULT_INGEST_URL: Final = "http://127.0.0.1:8080"
DEFAULT_CONSUMER_URL: Final = "http://127.0.0.1:8081"

MAX_NACK_REASON: Final = 1_000
"""Characters of why a record was given back."""
HOST_HEADER: Final = "Lakequeue-Host"

MAX_RECORD_BYTES: Final = 1 << 20
MAX_REQUEST_BYTES: Final = 16 << 20
MAX_REQUEST_RECORDS: Final = 10_000
MAX_HEADERS: Final = 64
MAX_MESSAGE_ID_CHARS: Final = 512
DEFAULT_PARTITIONS: Final = 4
MAX_PARTITIONS: Final = 10_000
MAX_NAMED_TOPICS: Final = 10_000
"""Topics that one request may name."""
DEFAULT_DEDUP_WINDOW_MS: Final = 10 * 60_000
MAX_DEDUP_WINDOW_MS: Final = 24 * 3_600_000
MAX_SPAN_MS: Final = 100 * 365 * 86_400_000
"""Longest delay and time to live: 100 years; more is a mistake of the unit."""
MAX_ATTEMPTS: Final = 1_000_000
MAX_BACKOFF_MS: Final = 7 * 86_400_000
MAX_WHOLE: Final = 1 << 53
"""Largest epoch and offset in a request: exact in every JSON parser."""
MAX_VISIBILITY_MS: Final = 24 * 3_600_000
DEFAULT_VISIBILITY_MS: Final = 30_000
MAX_IN_FLIGHT: Final = 10_000
DEFAULT_MAX_IN_FLIGHT: Final = 1_000
MAX_PREDICATE_CHARS: Final = 4_000
MAX_WAIT_MS: Final = 60_000
"""Longest `wait_ms` of a poll and `timeout_ms` of `wait=ordered`."""
DEFAULT_ORDER_TIMEOUT_MS: Final = 10_000

RECORD_FIELDS: Final = frozenset(
    {
        "key",
        "key_base64",
        "value",
        "value_base64",
        "headers",
        "partition",
        "message_id",
        "timestamp",
        "deliver_at",
        "delay_ms",
        "ttl_ms",
    }
)
"""What a produced record may have; anything else is refused, so that a typo is not lost data."""
MAX_ANNOTATIONS_CHARS: Final = 65_536
"""Longest text that programs keep beside a topic."""
MAX_CLOSED_MS: Final = 600_000
"""Longest time for which a topic can be closed."""
