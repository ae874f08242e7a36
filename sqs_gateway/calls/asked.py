"""A request as operations see it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from serving.front.parking import Done, Steps, Until
from sqs_gateway.calls.caller import Caller
from sqs_gateway.calls.queues import Queue
from sqs_gateway.rules.errors import QUEUE_DOES_NOT_EXIST, SqsError
from sqs_gateway.rules.names import Names, name_in_url
from sqs_gateway.rules.shapes import Input

T = TypeVar("T")
Output = dict[str, Any]
Do = Callable[["Asked"], Output]
"""What an operation does; blocking."""
DoSteps = Callable[["Asked"], Steps[Output]]
"""What an operation does that waits for others. It does not block if its queue is known."""


_LOOK_S = 30.0


def result_of(future: Future[T]) -> Steps[T]:
    """What it comes to, whatever becomes of the client meanwhile."""
    while not future.done():
        yield Until(Done(future), _LOOK_S, minds=False)
    return future.result()


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for what."""

    caller: Caller
    names: Names
    given: Input
    base_url: str
    """Of the gateway, as the client reaches it."""
    gone: Callable[[], bool]
    """Whether the client has hung up."""

    @property
    def queue_name(self) -> str:
        """The name in `QueueUrl`. Raises `SqsError`."""
        return name_in_url(self.given.get("QueueUrl", ""))

    def queue(self) -> Queue:
        """The queue of `QueueUrl`, as it was a moment ago at the earliest. Raises `SqsError`."""
        return self.caller.queues.find(self.queue_name)

    def queue_of(self, arn: str) -> Queue | None:
        """The queue of an ARN, as it is now; None if there is none here."""
        name = self.names.of_arn(arn)
        try:
            return None if name is None else self.caller.queues.newest(name)
        except SqsError as error:
            if error.code is not QUEUE_DOES_NOT_EXIST:
                raise
            return None

    def url(self, name: str) -> str:
        """The URL of a queue."""
        return self.names.url(self.base_url, name)
