"""Names of queues, their URLs and ARNs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from sqs_gateway.rules.errors import INVALID_ADDRESS, SqsError, invalid, missing

FIFO_SUFFIX: Final = ".fifo"
_NEW_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
_LAKEQUEUE_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_ACCOUNT: Final = re.compile(r"[0-9]{1,12}\Z|queue\Z")


@dataclass(frozen=True, slots=True)
class Names:
    """How the queues of one gateway are called."""

    account: str
    region: str

    def arn(self, name: str) -> str:
        """The ARN of a queue."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"

    def url(self, base: str, name: str) -> str:
        """The URL of a queue at a gateway."""
        return f"{base}/{self.account}/{name}"

    def of_arn(self, arn: str) -> str | None:
        """The queue that an ARN names; None: it is no ARN of a queue here."""
        parts = arn.split(":")
        if len(parts) != 6 or parts[:3] != ["arn", "aws", "sqs"] or parts[4] != self.account:
            return None
        return parts[5] if _LAKEQUEUE_NAME.match(parts[5]) else None


def name_in_url(url: str) -> str:
    """The queue that a URL is of: whatever its host, since there may be several gateways.

    Raises `SqsError`.
    """
    if not url:
        raise missing("QueueUrl")
    try:
        path = urlsplit(url).path
    except ValueError:
        path = ""
    found = name_in_path(path)
    if found is None:
        raise SqsError(INVALID_ADDRESS, f"The address {url[:200]} is not valid for this endpoint.")
    return found


def name_in_path(path: str) -> str | None:
    """The queue in `/<account>/<name>`; None: the path is of another form."""
    parts = [unquote(part) for part in path.split("/") if part]
    if len(parts) == 1 and _LAKEQUEUE_NAME.match(parts[0]):
        return parts[0]
    if len(parts) == 2 and _ACCOUNT.match(parts[0]) and _LAKEQUEUE_NAME.match(parts[1]):
        return parts[1]
    return None


def is_fifo(name: str) -> bool:
    """FIFO queues show by their names."""
    return name.endswith(FIFO_SUFFIX)


def checked_new_name(name: str, *, fifo: bool) -> str:
    """The name of a queue that is to be made. Raises `SqsError`."""
    if not name:
        raise invalid("QueueName", name, "Queue name cannot be empty")
    if is_fifo(name) != fifo:
        said = (
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or"
            " underscores, must end with .fifo suffix and be 1 to 80 in length."
        )
        raise invalid("QueueName", name, said)
    if len(name) > 80 or not _NEW_NAME.match(name.removesuffix(FIFO_SUFFIX) if fifo else name):
        raise invalid(
            "QueueName",
            name,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    return name


def checked_name(name: str) -> str:
    """The name of a queue that may be there: also one that SQS itself could not have made.

    Raises `SqsError`.
    """
    if not _LAKEQUEUE_NAME.match(name):
        raise invalid(
            "QueueName",
            name,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    return name
