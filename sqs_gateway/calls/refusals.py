"""An error of the services, in the words of SQS. Pure."""

from __future__ import annotations

from lakequeue.errors import (
    Forbidden,
    GroupMismatch,
    InvalidName,
    InvalidSetting,
    LakequeueError,
    NotOrdered,
    Overloaded,
    OverQuota,
    Rejected,
    StorageFull,
    TooLarge,
    TopicClosed,
    TryAgain,
    Unauthenticated,
    UnknownGroup,
    UnknownTopic,
)
from sqs_gateway.rules.errors import (
    ACCESS_DENIED,
    FAILED,
    INVALID_PARAMETER,
    NOT_AVAILABLE,
    QUEUE_DOES_NOT_EXIST,
    THROTTLED,
    UNSUPPORTED,
    Code,
    SqsError,
)

_CODES: tuple[tuple[type[LakequeueError], Code], ...] = (
    # Of this gateway: the file of its keys.
    (InvalidSetting, NOT_AVAILABLE),
    (UnknownTopic, QUEUE_DOES_NOT_EXIST),
    (UnknownGroup, QUEUE_DOES_NOT_EXIST),
    (Forbidden, ACCESS_DENIED),
    (Unauthenticated, ACCESS_DENIED),
    (GroupMismatch, UNSUPPORTED),
    (TooLarge, INVALID_PARAMETER),
    (InvalidName, INVALID_PARAMETER),
    (NotOrdered, NOT_AVAILABLE),
    (Rejected, INVALID_PARAMETER),
    (Overloaded, THROTTLED),
    (OverQuota, THROTTLED),
    (TopicClosed, NOT_AVAILABLE),
    (StorageFull, NOT_AVAILABLE),
    (TryAgain, NOT_AVAILABLE),
)
"""The first that fits counts."""


def refusal_of(error: Exception) -> SqsError:
    """What a client of SQS is told: of what may be sent again, so that SDKs do."""
    if isinstance(error, SqsError):
        return error
    if isinstance(error, LakequeueError):
        for kind, code in _CODES:
            if isinstance(error, kind):
                return SqsError(code, f"{error.detail} ({error.code})")
        if error.http_status < 500:
            return SqsError(INVALID_PARAMETER, f"{error.detail} ({error.code})")
        return SqsError(NOT_AVAILABLE, f"{error.detail} ({error.code})")
    return SqsError(FAILED, "The gateway failed; its log has the details.")
