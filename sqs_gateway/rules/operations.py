"""The operations of SQS, declared once: their parameters, and what they need. Pure.

Both protocols read requests by this table, and docs/sqs.md has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqs_gateway.rules.shapes import Field, Kind, whole

MAX_DELAY_S: Final = 900
MAX_VISIBILITY_S: Final = 43_200
MAX_WAIT_S: Final = 20
MAX_BATCH: Final = 10
MAX_LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Operation:
    """One call."""

    name: str
    fields: tuple[Field, ...]
    needs: str
    """Which right over the queue, in the words of `lakequeue auth grant`."""


_URL = Field("QueueUrl", required=True)
_RECEIPT = Field("ReceiptHandle", required=True)
_VISIBILITY = whole("VisibilityTimeout", 0, MAX_VISIBILITY_S, required=True)
_ID = Field("Id", required=True)
_MESSAGE = (
    Field("MessageBody"),
    whole("DelaySeconds", 0, MAX_DELAY_S),
    Field("MessageAttributes", Kind.ATTRIBUTES, query="MessageAttribute"),
    Field("MessageSystemAttributes", Kind.ATTRIBUTES, query="MessageSystemAttribute"),
    Field("MessageDeduplicationId"),
    Field("MessageGroupId"),
)
_PAGE = (Field("NextToken"), whole("MaxResults", 1, MAX_LISTED))
_PRODUCE, _CONSUME, _MANAGE = "produce", "consume", "manage"
_ANY = "any right"


def _entries(operation: str, *fields: Field) -> Field:
    query = f"{operation}RequestEntry"
    return Field("Entries", Kind.ENTRIES, required=True, query=query, entry=(_ID, *fields))


def _map(name: str, query: str, *, required: bool = False) -> Field:
    return Field(name, Kind.MAP, required, query=query)


OPERATIONS: Final = {
    one.name: one
    for one in (
        Operation(
            "CreateQueue",
            (
                Field("QueueName", required=True),
                _map("Attributes", "Attribute"),
                _map("tags", "Tag"),
            ),
            _MANAGE,
        ),
        Operation("DeleteQueue", (_URL,), _MANAGE),
        Operation(
            "GetQueueUrl",
            (Field("QueueName", required=True), Field("QueueOwnerAWSAccountId")),
            _ANY,
        ),
        Operation("ListQueues", (Field("QueueNamePrefix"), *_PAGE), _ANY),
        Operation(
            "GetQueueAttributes",
            (_URL, Field("AttributeNames", Kind.TEXTS, query="AttributeName")),
            _ANY,
        ),
        Operation(
            "SetQueueAttributes", (_URL, _map("Attributes", "Attribute", required=True)), _MANAGE
        ),
        Operation("PurgeQueue", (_URL,), _MANAGE),
        Operation("SendMessage", (_URL, *_MESSAGE), _PRODUCE),
        Operation("SendMessageBatch", (_URL, _entries("SendMessageBatch", *_MESSAGE)), _PRODUCE),
        Operation(
            "ReceiveMessage",
            (
                _URL,
                Field("AttributeNames", Kind.TEXTS, query="AttributeName"),
                Field(
                    "MessageSystemAttributeNames", Kind.TEXTS, query="MessageSystemAttributeName"
                ),
                Field("MessageAttributeNames", Kind.TEXTS, query="MessageAttributeName"),
                whole("MaxNumberOfMessages", 1, MAX_BATCH),
                whole("VisibilityTimeout", 0, MAX_VISIBILITY_S),
                whole("WaitTimeSeconds", 0, MAX_WAIT_S),
                Field("ReceiveRequestAttemptId"),
            ),
            _CONSUME,
        ),
        Operation("DeleteMessage", (_URL, _RECEIPT), _CONSUME),
        Operation("DeleteMessageBatch", (_URL, _entries("DeleteMessageBatch", _RECEIPT)), _CONSUME),
        Operation("ChangeMessageVisibility", (_URL, _RECEIPT, _VISIBILITY), _CONSUME),
        Operation(
            "ChangeMessageVisibilityBatch",
            (_URL, _entries("ChangeMessageVisibilityBatch", _RECEIPT, _VISIBILITY)),
            _CONSUME,
        ),
        Operation("TagQueue", (_URL, _map("Tags", "Tag", required=True)), _MANAGE),
        Operation(
            "UntagQueue", (_URL, Field("TagKeys", Kind.TEXTS, True, query="TagKey")), _MANAGE
        ),
        Operation("ListQueueTags", (_URL,), _ANY),
        Operation("ListDeadLetterSourceQueues", (_URL, *_PAGE), _ANY),
        Operation(
            "AddPermission",
            (
                _URL,
                Field("Label", required=True),
                Field("AWSAccountIds", Kind.TEXTS, True, query="AWSAccountId"),
                Field("Actions", Kind.TEXTS, True, query="ActionName"),
            ),
            _MANAGE,
        ),
        Operation("RemovePermission", (_URL, Field("Label", required=True)), _MANAGE),
        Operation(
            "StartMessageMoveTask",
            (
                Field("SourceArn", required=True),
                Field("DestinationArn"),
                whole("MaxNumberOfMessagesPerSecond", 1, 500),
            ),
            _MANAGE,
        ),
        Operation("CancelMessageMoveTask", (Field("TaskHandle", required=True),), _MANAGE),
        Operation(
            "ListMessageMoveTasks",
            (Field("SourceArn", required=True), whole("MaxResults", 1, 10)),
            _ANY,
        ),
    )
}
"""By name."""
