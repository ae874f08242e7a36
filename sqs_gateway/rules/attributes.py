"""The attributes of a queue, declared once: bounds, defaults, and who may set them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from sqs_gateway.rules.errors import INVALID_ATTRIBUTE_NAME, INVALID_ATTRIBUTE_VALUE, SqsError
from sqs_gateway.rules.operations import MAX_DELAY_S, MAX_VISIBILITY_S, MAX_WAIT_S

MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_RECEIVES: Final = 1_000
KMS_KEY: Final = "KmsMasterKeyId"
SQS_KEYS: Final = "SqsManagedSseEnabled"


@dataclass(frozen=True, slots=True)
class QueueAttribute:
    """One attribute."""

    name: str
    default: str | None = None
    """What holds if nobody has set it; None: nothing."""
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()
    document: bool = False
    """It is a JSON object, and empty text takes it away."""
    settable: bool = True
    when_made: bool = False
    """It is set when the queue is made, or never."""
    of_fifo: bool = False


_FLAG: Final = ("true", "false")


def _number(name: str, default: int, least: int, most: int) -> QueueAttribute:
    return QueueAttribute(name, str(default), least, most)


def _told(name: str) -> QueueAttribute:
    return QueueAttribute(name, settable=False)


DECLARED: Final = {
    one.name: one
    for one in (
        _number("VisibilityTimeout", 30, 0, MAX_VISIBILITY_S),
        _number("DelaySeconds", 0, 0, MAX_DELAY_S),
        _number("ReceiveMessageWaitTimeSeconds", 0, 0, MAX_WAIT_S),
        _number("MaximumMessageSize", MAX_MESSAGE_BYTES, 1_024, MAX_MESSAGE_BYTES),
        _number("MessageRetentionPeriod", 345_600, 60, 1_209_600),
        QueueAttribute("RedrivePolicy", document=True),
        QueueAttribute("RedriveAllowPolicy", document=True),
        QueueAttribute("Policy", document=True),
        QueueAttribute("FifoQueue", words=_FLAG, when_made=True, of_fifo=True),
        QueueAttribute("ContentBasedDeduplication", "false", words=_FLAG, of_fifo=True),
        QueueAttribute(
            "DeduplicationScope", "queue", words=("queue", "messageGroup"), of_fifo=True
        ),
        QueueAttribute(
            "FifoThroughputLimit",
            "perQueue",
            words=("perQueue", "perMessageGroupId"),
            of_fifo=True,
        ),
        QueueAttribute(KMS_KEY),
        QueueAttribute("KmsDataKeyReusePeriodSeconds", None, 60, 86_400),
        QueueAttribute(SQS_KEYS, "false", words=_FLAG),
        _told("ApproximateNumberOfMessages"),
        _told("ApproximateNumberOfMessagesNotVisible"),
        _told("ApproximateNumberOfMessagesDelayed"),
        _told("CreatedTimestamp"),
        _told("LastModifiedTimestamp"),
        _told("QueueArn"),
    )
}
"""By name."""

COUNTS: Final = frozenset(name for name in DECLARED if name.startswith("Approximate"))


def asked_for(names: Iterable[str]) -> frozenset[str]:
    """The attributes that a request asks for. Raises `SqsError`."""
    found: set[str] = set()
    for name in names:
        if name == "All":
            found |= DECLARED.keys()
        elif name in DECLARED:
            found.add(name)
        else:
            raise unknown(name)
    return frozenset(found)


def unknown(name: str) -> SqsError:
    """There is no such attribute, or it cannot be set."""
    return SqsError(INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {name[:100]}.")


def checked(given: Mapping[str, str], *, fifo: bool, new: bool) -> dict[str, str]:
    """Attributes that are to be set, in their normal form. Raises `SqsError`.

    Empty text stands for an attribute that is taken away.
    """
    return {name: _checked(name, value, fifo=fifo, new=new) for name, value in given.items()}


def check_together(attributes: Mapping[str, str]) -> None:
    """What may not be beside each other in a queue. Raises `SqsError`."""
    per_group = attributes.get("FifoThroughputLimit") == "perMessageGroupId"
    if per_group and attributes.get("DeduplicationScope") != "messageGroup":
        said = "perMessageGroupId needs the DeduplicationScope messageGroup."
        raise invalid_value("FifoThroughputLimit", said)


def check_encryption(given: Mapping[str, str]) -> None:
    """A request may ask for one kind of encryption. Raises `SqsError`."""
    if given.get(KMS_KEY) and given.get(SQS_KEYS) == "true":
        raise SqsError(
            INVALID_ATTRIBUTE_NAME,
            "You can use one type of server-side encryption (SSE) at one time. You can either"
            " enable KMS SSE or SQS SSE.",
        )


def replaced_by(given: Mapping[str, str]) -> frozenset[str]:
    """What these attributes end: the other kind of encryption."""
    if given.get(KMS_KEY):
        return frozenset({SQS_KEYS})
    return frozenset({KMS_KEY}) if given.get(SQS_KEYS) == "true" else frozenset()


def _checked(name: str, value: str, *, fifo: bool, new: bool) -> str:
    one = DECLARED.get(name)
    if one is None or not one.settable or (one.of_fifo and not fifo):
        raise unknown(name)
    if one.when_made and not new:
        raise invalid_value(name, "Modifying this attribute is not supported.")
    value = value.strip()
    if one.document:
        return document_of(name, value)
    if one.least is not None:
        return _number_of(one, value)
    value = value.lower() if one.words == _FLAG else value
    if one.words and value not in one.words:
        raise invalid_value(name)
    if one.when_made and value != "true":
        raise invalid_value(name)
    return value


def _number_of(one: QueueAttribute, value: str) -> str:
    if not value.isascii() or not value.isdigit() or len(value) > 10:
        raise invalid_value(one.name)
    number = int(value)
    if not (one.least or 0) <= number <= (one.most or 0):
        raise invalid_value(one.name)
    return str(number)


def invalid_value(name: str, reason: str = "") -> SqsError:
    """An attribute has a value that it cannot have."""
    said = f"Invalid value for the parameter {name}."
    return SqsError(INVALID_ATTRIBUTE_VALUE, f"{said} Reason: {reason}" if reason else said)


def document_of(name: str, value: str) -> str:
    """The text of an attribute that is a JSON object; "" stays. Raises `SqsError`."""
    if not value:
        return ""
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise invalid_value(name, "It is not JSON.") from None
    if not isinstance(parsed, dict):
        raise invalid_value(name, "It is no JSON object.")
    return orjson.dumps(parsed).decode()


@dataclass(frozen=True, slots=True)
class Redrive:
    """Where messages go that were received too often."""

    target_arn: str
    receives: int

    def text(self) -> str:
        """As the attribute `RedrivePolicy` has it."""
        policy = {"deadLetterTargetArn": self.target_arn, "maxReceiveCount": self.receives}
        return orjson.dumps(policy).decode()


def redrive_of(text: str) -> Redrive:
    """Read a `RedrivePolicy`. Raises `SqsError`."""
    policy: dict[str, Any] = orjson.loads(text)
    arn, receives = policy.get("deadLetterTargetArn"), policy.get("maxReceiveCount")
    if isinstance(receives, str) and receives.isascii() and receives.isdigit():
        receives = int(receives[:9])
    if not isinstance(arn, str) or not arn:
        raise invalid_value("RedrivePolicy", "It does not contain mandatory deadLetterTargetArn.")
    if isinstance(receives, bool) or not isinstance(receives, int):
        raise invalid_value("RedrivePolicy", "It does not contain mandatory maxReceiveCount.")
    if not 1 <= receives <= MAX_RECEIVES:
        raise invalid_value("RedrivePolicy", f"maxReceiveCount must be 1 to {MAX_RECEIVES}.")
    return Redrive(arn, receives)


def allows(policy: str, source_arn: str) -> bool:
    """Whether a `RedriveAllowPolicy` lets that queue send its dead messages. Raises `SqsError`."""
    if not policy:
        return True
    parsed: dict[str, Any] = orjson.loads(policy)
    permission, arns = parsed.get("redrivePermission", "allowAll"), parsed.get("sourceQueueArns")
    if permission not in {"allowAll", "denyAll", "byQueue"}:
        raise invalid_value("RedriveAllowPolicy", "redrivePermission is not known.")
    if permission == "byQueue":
        if not isinstance(arns, list) or not 1 <= len(arns) <= 10:
            raise invalid_value("RedriveAllowPolicy", "sourceQueueArns must be 1 to 10 ARNs.")
        return bool(source_arn in arns)
    if arns is not None:
        raise invalid_value("RedriveAllowPolicy", "sourceQueueArns is for byQueue alone.")
    return bool(permission == "allowAll")
