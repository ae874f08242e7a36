"""Permissions, kept as statements of the attribute `Policy`. Nothing is decided by them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from sqs_gateway.rules.errors import OVER_LIMIT, SqsError, invalid

_ACTIONS: Final = frozenset(
    {
        "*",
        "SendMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "ChangeMessageVisibility",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
    }
)
_MOST_ACTIONS: Final = 7
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
_ACCOUNT: Final = re.compile(r"[0-9]{12}\Z", re.ASCII)


def with_permission(
    policy: str | None, arn: str, label: str, accounts: Sequence[str], actions: Sequence[str]
) -> str:
    """The policy with one statement more. Raises `SqsError`."""
    if not _LABEL.match(label):
        raise invalid(
            "Label", label, "Can only include alphanumeric characters, hyphens, or underscores."
        )
    if len(actions) > _MOST_ACTIONS:
        raise SqsError(
            OVER_LIMIT,
            f"{len(actions)} Actions were found, maximum allowed is {_MOST_ACTIONS}.",
        )
    for action in actions:
        if action not in _ACTIONS:
            raise invalid("ActionName", action, "Only the known actions of a queue are allowed.")
    for account in accounts:
        if not _ACCOUNT.match(account):
            raise invalid("PrincipalId", account, "Unable to verify.")
    whole = _policy(policy, arn)
    if any(isinstance(one, dict) and one.get("Sid") == label for one in whole["Statement"]):
        raise invalid("Label", label, "Already exists.")
    principals = [f"arn:aws:iam::{account}:root" for account in accounts]
    whole["Statement"].append(
        {
            "Sid": label,
            "Effect": "Allow",
            "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
            "Action": [f"SQS:{action}" for action in actions],
            "Resource": arn,
        }
    )
    return orjson.dumps(whole).decode()


def without_permission(policy: str | None, arn: str, label: str) -> str:
    """The policy without that statement; "" if it was the last. Raises `SqsError`."""
    whole = _policy(policy, arn)
    left = [
        one for one in whole["Statement"] if not isinstance(one, dict) or one.get("Sid") != label
    ]
    if len(left) == len(whole["Statement"]):
        raise invalid("Label", label, "can't find label on existing policy.")
    return orjson.dumps(whole | {"Statement": left}).decode() if left else ""


def _policy(text: str | None, arn: str) -> dict[str, Any]:
    new: dict[str, Any] = {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy"}
    found: dict[str, Any] = orjson.loads(text) if text else new
    statements = found.get("Statement")
    if isinstance(statements, dict):
        statements = [statements]
    return found | {"Statement": list(statements) if isinstance(statements, list) else []}
