"""The errors of SQS, declared once: their names in the JSON protocol and in the older one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_SQS: Final = "com.amazonaws.sqs#"
_COMMON: Final = "com.amazon.coral.service#"
_OLD: Final = "AWS.SimpleQueueService."


@dataclass(frozen=True, slots=True)
class Code:
    """One error of SQS."""

    type: str
    """`__type` of the JSON protocol."""
    query: str
    """`Code` of the query protocol; in the JSON protocol the header `x-amzn-query-error` has it."""
    status: int = 400
    sender: bool = True
    """The request is at fault, not the service."""

    @property
    def name(self) -> str:
        """The name by which SDKs know its class."""
        return self.type.rpartition("#")[2]

    @property
    def fault(self) -> str:
        """Who is at fault, in the words of both protocols."""
        return "Sender" if self.sender else "Receiver"


def _own(name: str, query: str | None = None, status: int = 400) -> Code:
    return Code(_SQS + name, query or _OLD + name, status)


def _plain(name: str, status: int = 400) -> Code:
    return Code(_SQS + name, name, status)


QUEUE_DOES_NOT_EXIST: Final = _own("QueueDoesNotExist", _OLD + "NonExistentQueue")
QUEUE_NAME_EXISTS: Final = _own("QueueNameExists", "QueueAlreadyExists")
PURGE_IN_PROGRESS: Final = _own("PurgeQueueInProgress", status=403)
MESSAGE_NOT_INFLIGHT: Final = _own("MessageNotInflight")
EMPTY_BATCH: Final = _own("EmptyBatchRequest")
TOO_MANY_ENTRIES: Final = _own("TooManyEntriesInBatchRequest")
IDS_NOT_DISTINCT: Final = _own("BatchEntryIdsNotDistinct")
BATCH_TOO_LONG: Final = _own("BatchRequestTooLong")
INVALID_ENTRY_ID: Final = _own("InvalidBatchEntryId")
UNSUPPORTED: Final = _own("UnsupportedOperation")
RECEIPT_INVALID: Final = _plain("ReceiptHandleIsInvalid")
INVALID_ATTRIBUTE_NAME: Final = _plain("InvalidAttributeName")
INVALID_ATTRIBUTE_VALUE: Final = _plain("InvalidAttributeValue")
INVALID_CONTENTS: Final = _plain("InvalidMessageContents")
OVER_LIMIT: Final = _plain("OverLimit", 403)
THROTTLED: Final = _plain("RequestThrottled", 403)
RESOURCE_NOT_FOUND: Final = _plain("ResourceNotFoundException", 404)
INVALID_ADDRESS: Final = _plain("InvalidAddress", 404)

INVALID_PARAMETER: Final = Code(_COMMON + "InvalidParameterValueException", "InvalidParameterValue")
MISSING_PARAMETER: Final = Code(_COMMON + "MissingRequiredParameterException", "MissingParameter")
UNKNOWN_OPERATION: Final = Code(_COMMON + "UnknownOperationException", "InvalidAction")
NOT_READABLE: Final = Code(_COMMON + "SerializationException", "MalformedInput")
ACCESS_DENIED: Final = Code(_COMMON + "AccessDeniedException", "AccessDenied", 403)
UNKNOWN_KEY: Final = Code(_COMMON + "UnrecognizedClientException", "InvalidClientTokenId", 403)
BAD_SIGNATURE: Final = Code(_COMMON + "InvalidSignatureException", "SignatureDoesNotMatch", 403)
INCOMPLETE_SIGNATURE: Final = Code(_COMMON + "IncompleteSignatureException", "IncompleteSignature")
NO_SIGNATURE: Final = Code(
    _COMMON + "MissingAuthenticationTokenException", "MissingAuthenticationToken", 403
)
NOT_AVAILABLE: Final = Code(
    _COMMON + "ServiceUnavailableException", "ServiceUnavailable", 503, sender=False
)
FAILED: Final = Code(_COMMON + "InternalFailure", "InternalFailure", 500, sender=False)


class SqsError(Exception):
    """A refusal in the words of SQS. SDKs make an exception of the class `code.name` of it."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code.query}: {message}")
        self.code = code
        self.message = message


def missing(name: str) -> SqsError:
    """A parameter that must be there is not."""
    return SqsError(MISSING_PARAMETER, f"The request must contain the parameter {name}.")


def invalid(name: str, value: object, reason: str) -> SqsError:
    """A parameter has a value that it cannot have."""
    said = str(value)[:200]
    return SqsError(
        INVALID_PARAMETER, f"Value {said} for parameter {name} is invalid. Reason: {reason}"
    )


def no_such_queue() -> SqsError:
    """The queue is not there."""
    return SqsError(QUEUE_DOES_NOT_EXIST, "The specified queue does not exist.")
