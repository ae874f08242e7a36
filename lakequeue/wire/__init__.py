"""The HTTP wire, written once for both sides: media types, names, limits, shapes, encodings.

Requests and small answers are pydantic models. Records pass through in thousands, so they are
plain dicts here, made and read by `key_value_to_json` and `key_value_from_json`; a server
validates each record of a request by hand, to name the record and the field.

Times on the wire are whole microseconds since 1970 UTC; a produced record may also give an
RFC 3339 string. Names end in their unit (`_ms`); the request header `Lakequeue-Host` tells a
member's host name, for people who look for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakequeue.times import (
        check_time,
        micros_of_time,
        moment_of,
        timestamp_from_json,
        to_micros,
    )
    from lakequeue.wire.calls.advice import (
        AddWhat,
        Advice,
        AdviceAnswer,
        AdviceQuery,
        Course,
        Trend,
    )
    from lakequeue.wire.calls.browse import BrowseAnswer, BrowseQuery
    from lakequeue.wire.calls.groups import (
        AckAnswer,
        AckRequest,
        Assigned,
        CommitPosition,
        Committed,
        Extend,
        From,
        GroupDescription,
        GroupList,
        GroupMode,
        GroupOptions,
        GroupSummary,
        HeartbeatAnswer,
        JoinAnswer,
        JoinRequest,
        MemberState,
        Nack,
        Ordering,
        PartitionState,
        PollAnswer,
        PollQuery,
        RefusedAck,
        RefusedReceipt,
        RefusedWhy,
        SettleAnswer,
        Settled,
    )
    from lakequeue.wire.calls.nodes import NodeInfo, NodeList
    from lakequeue.wire.calls.pauses import PauseAnswer, PauseRequest, PauseRule
    from lakequeue.wire.calls.produce import (
        Consumed,
        EpochAnswer,
        ProduceAnswer,
        ProducedRecord,
        ProduceEnvelope,
        ProduceQuery,
        derived_message_id,
    )
    from lakequeue.wire.calls.queue_verbs import (
        PurgeAnswer,
        Purged,
        PurgeRequest,
        QueueGroupAnswer,
        QueueGroupRequest,
        ReceiveAnswer,
        ReceiveRequest,
    )
    from lakequeue.wire.calls.receipts import (
        DEAD_LETTER_HEADERS,
        ERASED_HEADER,
        DeadLetterHeader,
        QueueReceipt,
        dead_letter_id,
        group_checksum,
        is_internal_group,
        parse_queue_receipt,
        redrive_group,
        redrive_id,
    )
    from lakequeue.wire.calls.redrive import RedriveAnswer, RedriveRequest
    from lakequeue.wire.calls.seek import SeekAnswer, SeekMove, SeekRequest, SeekTo
    from lakequeue.wire.calls.status import (
        DeadLetterPlace,
        RecordStatus,
        StatusName,
        StatusQuery,
        TopicCounts,
        parse_place,
        place_of,
    )
    from lakequeue.wire.calls.topics import (
        OnExpired,
        Partitioner,
        SettledTopic,
        TopicChanges,
        TopicConfig,
        TopicDescription,
        TopicList,
        default_dead_letters,
    )
    from lakequeue.wire.calls.webhooks import WebhookDescription, WebhookRequest
    from lakequeue.wire.encoding import (
        UNDECODABLE,
        format_in_fact,
        from_bytes,
        headers_from_json,
        headers_to_json,
        key_value_from_json,
        key_value_to_json,
        parse_receipt,
        put_key_value,
        receipt_of,
        record_to_json,
        to_bytes,
    )
    from lakequeue.wire.exact_json import dumps_exactly, loads_exactly
    from lakequeue.wire.limits import (
        ARROW_STREAM,
        DEFAULT_CONSUMER_URL,
        DEFAULT_DEDUP_WINDOW_MS,
        DEFAULT_INGEST_URL,
        DEFAULT_ORDER_TIMEOUT_MS,
        DEFAULT_PARTITIONS,
        GATHERED,
        HOST_HEADER,
        JSON,
        MAX_ATTEMPTS,
        MAX_BACKOFF_MS,
        MAX_CLOSED_MS,
        MAX_DEDUP_WINDOW_MS,
        MAX_HEADERS,
        MAX_IN_FLIGHT,
        MAX_MESSAGE_ID_CHARS,
        MAX_NACK_REASON,
        MAX_PARTITIONS,
        MAX_RECORD_BYTES,
        MAX_REQUEST_BYTES,
        MAX_REQUEST_RECORDS,
        MAX_SPAN_MS,
        MAX_VISIBILITY_MS,
        MAX_WAIT_MS,
        MAX_WHOLE,
        NDJSON,
        PROBLEM,
        RECORD_FIELDS,
        SSE,
    )
    from lakequeue.wire.problems import from_problem
    from lakequeue.wire.shapes import (
        AnswerShape,
        RequestShape,
    )

_HOMES = (
    "lakequeue.wire.limits",
    "lakequeue.times",
    "lakequeue.wire.calls.advice",
    "lakequeue.wire.calls.browse",
    "lakequeue.wire.calls.groups",
    "lakequeue.wire.calls.nodes",
    "lakequeue.wire.calls.pauses",
    "lakequeue.wire.calls.produce",
    "lakequeue.wire.calls.queue_verbs",
    "lakequeue.wire.calls.receipts",
    "lakequeue.wire.calls.redrive",
    "lakequeue.wire.calls.seek",
    "lakequeue.wire.calls.status",
    "lakequeue.wire.calls.topics",
    "lakequeue.wire.calls.webhooks",
    "lakequeue.wire.encoding",
    "lakequeue.wire.exact_json",
    "lakequeue.wire.problems",
    "lakequeue.wire.shapes",
)
"""Where the names are. Whoever needs one call, as readers of tables do, does not load all."""

__all__ = [
    "AddWhat",
    "Advice",
    "AdviceAnswer",
    "AdviceQuery",
    "Course",
    "Trend",
    "SettledTopic",
    "MAX_CLOSED_MS",
    "NodeInfo",
    "NodeList",
    "WebhookDescription",
    "WebhookRequest",
    "ARROW_STREAM",
    "AckAnswer",
    "AckRequest",
    "AnswerShape",
    "Assigned",
    "BrowseAnswer",
    "BrowseQuery",
    "CommitPosition",
    "Committed",
    "Consumed",
    "DEFAULT_CONSUMER_URL",
    "DEFAULT_DEDUP_WINDOW_MS",
    "DEFAULT_INGEST_URL",
    "DEFAULT_ORDER_TIMEOUT_MS",
    "DEFAULT_PARTITIONS",
    "DEAD_LETTER_HEADERS",
    "ERASED_HEADER",
    "DeadLetterHeader",
    "DeadLetterPlace",
    "EpochAnswer",
    "Extend",
    "From",
    "GATHERED",
    "GroupDescription",
    "GroupList",
    "GroupMode",
    "GroupOptions",
    "GroupSummary",
    "HOST_HEADER",
    "HeartbeatAnswer",
    "JSON",
    "JoinAnswer",
    "JoinRequest",
    "MAX_ATTEMPTS",
    "MAX_BACKOFF_MS",
    "MAX_DEDUP_WINDOW_MS",
    "MAX_HEADERS",
    "MAX_IN_FLIGHT",
    "MAX_NACK_REASON",
    "MAX_MESSAGE_ID_CHARS",
    "MAX_PARTITIONS",
    "MAX_RECORD_BYTES",
    "MAX_REQUEST_BYTES",
    "MAX_REQUEST_RECORDS",
    "MAX_SPAN_MS",
    "MAX_VISIBILITY_MS",
    "MAX_WAIT_MS",
    "MAX_WHOLE",
    "MemberState",
    "NDJSON",
    "Nack",
    "OnExpired",
    "Ordering",
    "PROBLEM",
    "PartitionState",
    "Partitioner",
    "PauseAnswer",
    "PauseRequest",
    "PauseRule",
    "PollAnswer",
    "PollQuery",
    "ProduceAnswer",
    "ProduceEnvelope",
    "ProduceQuery",
    "ProducedRecord",
    "PurgeAnswer",
    "PurgeRequest",
    "Purged",
    "QueueGroupAnswer",
    "QueueGroupRequest",
    "QueueReceipt",
    "ReceiveAnswer",
    "ReceiveRequest",
    "RECORD_FIELDS",
    "RecordStatus",
    "RedriveAnswer",
    "RedriveRequest",
    "RefusedAck",
    "RefusedReceipt",
    "RefusedWhy",
    "RequestShape",
    "SSE",
    "SeekAnswer",
    "SeekMove",
    "SeekRequest",
    "SeekTo",
    "SettleAnswer",
    "Settled",
    "StatusName",
    "StatusQuery",
    "TopicChanges",
    "TopicConfig",
    "TopicCounts",
    "TopicDescription",
    "TopicList",
    "UNDECODABLE",
    "dead_letter_id",
    "default_dead_letters",
    "derived_message_id",
    "dumps_exactly",
    "format_in_fact",
    "from_bytes",
    "loads_exactly",
    "from_problem",
    "group_checksum",
    "headers_from_json",
    "headers_to_json",
    "key_value_from_json",
    "key_value_to_json",
    "parse_place",
    "parse_queue_receipt",
    "parse_receipt",
    "place_of",
    "put_key_value",
    "receipt_of",
    "record_to_json",
    "is_internal_group",
    "redrive_group",
    "redrive_id",
    "timestamp_from_json",
    "to_bytes",
    "to_micros",
    "check_time",
    "micros_of_time",
    "moment_of",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for, and the homes before it."""
    if name in __all__:
        for home in _HOMES:
            found = vars(import_module(home))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
