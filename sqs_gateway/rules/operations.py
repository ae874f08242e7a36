"""The operations of SQS, declared once, with their parameters. Pure.

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
        ),
        Operation("DeleteQueue", (_URL,)),
        Operation(
            "GetQueueUrl",
            (Field("QueueName", required=True), Field("QueueOwnerAWSAccountId")),
        ),
        Operation("ListQueues", (Field("QueueNamePrefix"), *_PAGE)),
        Operation(
            "GetQueueAttributes",
            (_URL, Field("AttributeNames", Kind.TEXTS, query="AttributeName")),
        ),
        Operation("SetQueueAttributes", (_URL, _map("Attributes", "Attribute", required=True))),
        Operation("PurgeQueue", (_URL,)),
        Operation("SendMessage", (_URL, *_MESSAGE)),
        Operation("SendMessageBatch", (_URL, _entries("SendMessageBatch", *_MESSAGE))),
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
        ),
        Operation("DeleteMessage", (_URL, _RECEIPT)),
        Operation("DeleteMessageBatch", (_URL, _entries("DeleteMessageBatch", _RECEIPT))),
        Operation("ChangeMessageVisibility", (_URL, _RECEIPT, _VISIBILITY)),
        Operation(
            "ChangeMessageVisibilityBatch",
            (_URL, _entries("ChangeMessageVisibilityBatch", _RECEIPT, _VISIBILITY)),
        ),
        Operation("TagQueue", (_URL, _map("Tags", "Tag", required=True))),
        Operation("UntagQueue", (_URL, Field("TagKeys", Kind.TEXTS, True, query="TagKey"))),
        Operation("ListQueueTags", (_URL,)),
        Operation("ListDeadLetterSourceQueues", (_URL, *_PAGE)),
        Operation(
            "AddPermission",
            (
                _URL,
                Field("Label", required=True),
                Field("AWSAccountIds", Kind.TEXTS, True, query="AWSAccountId"),
                Field("Actions", Kind.TEXTS, True, query="ActionName"),
            ),
        ),
        Operation("RemovePermission", (_URL, Field("Label", required=True))),
        Operation(
            "StartMessageMoveTask",
            (
                Field("SourceArn", required=True),
                Field("DestinationArn"),
                whole("MaxNumberOfMessagesPerSecond", 1, 500),
            ),
        ),
        Operation("CancelMessageMoveTask", (Field("TaskHandle", required=True),)),
        Operation(
            "ListMessageMoveTasks",
            (Field("SourceArn", required=True), whole("MaxResults", 1, 10)),
        ),
    )
}
"""By name."""
