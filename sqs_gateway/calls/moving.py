"""Move tasks: dead messages back to the queues in which they died, or to another one.

A task is a thread of the gateway that was asked. It receives a message as every client does, sends
it, and deletes it. If the gateway ends in between, the message is received again later, and sent
with the same id: within the window of its queue it is there once. The rest of the task is lost with
the gateway, and may be started again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import structlog

from lakequeue.errors import LakequeueError, UnknownTopic
from lakequeue.wire import DEAD_LETTER_HEADERS, DeadLetterHeader, parse_queue_receipt, redrive_id
from sqs_gateway.calls.asked import Asked, Do, Output
from sqs_gateway.calls.caller import Caller
from sqs_gateway.calls.queues import Queue
from sqs_gateway.calls.settling import Action
from sqs_gateway.rules.errors import (
    RESOURCE_NOT_FOUND,
    UNSUPPORTED,
    SqsError,
)

log = structlog.get_logger(__name__)

_MOST_KNOWN: Final = 10
_AT_ONCE: Final = 10
_WAIT_MS: Final = 1_000
_HIDDEN_MS: Final = 30_000
_FIELDS: Final = ("key", "key_base64", "value", "value_base64", "timestamp")


@dataclass(slots=True)
class Task:
    """One task, as it is listed."""

    key: str | None
    """Of whoever started it: nobody else may cancel it."""
    source: str
    source_arn: str
    destination: str | None
    destination_arn: str | None
    per_second: int | None
    to_move: int
    handle: str = field(default_factory=lambda: str(uuid.uuid4()))
    started_ms: int = field(default_factory=lambda: int(time.time() * 1_000))
    status: str = "RUNNING"
    moved: int = 0
    failure: str | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    def told(self, key: str | None) -> dict[str, Any]:
        """As an answer to this caller has it: the handle only if there is something to cancel."""
        found: dict[str, Any] = {
            "TaskHandle": self.handle if self.may_cancel(key) else None,
            "Status": self.status,
            "SourceArn": self.source_arn,
            "DestinationArn": self.destination_arn,
            "MaxNumberOfMessagesPerSecond": self.per_second,
            "ApproximateNumberOfMessagesMoved": self.moved,
            "ApproximateNumberOfMessagesToMove": self.to_move,
            "FailureReason": self.failure,
            "StartedTimestamp": self.started_ms,
        }
        return {name: value for name, value in found.items() if value is not None}

    def may_cancel(self, key: str | None) -> bool:
        """Whether it runs, in the name of this key."""
        return self.status == "RUNNING" and self.key == key


class Moves:
    """The tasks of one gateway. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, deque[Task]] = {}
        """By the ARN of the source, the newest first."""

    def operations(self) -> dict[str, Do]:
        """By name."""
        return {
            "StartMessageMoveTask": self._start,
            "CancelMessageMoveTask": self._cancel,
            "ListMessageMoveTasks": self._list,
        }

    def _start(self, asked: Asked) -> Output:
        arn, target_arn = asked.given["SourceArn"], asked.given.get("DestinationArn")
        source = _named(asked, "SourceArn", arn)
        target = None if target_arn is None else _named(asked, "DestinationArn", target_arn)
        queues = asked.caller.queues
        if not any(one.dead_letter_topic == source.name for one in queues.all()):
            said = "Source queue must be configured as a Dead Letter Queue."
            raise SqsError(UNSUPPORTED, said)
        if target is not None and target.fifo != source.fifo:
            raise SqsError(UNSUPPORTED, "Both queues must be of the same type.")
        task = Task(
            asked.caller.key,
            source.name,
            arn,
            None if target is None else target.name,
            target_arn,
            asked.given.get("MaxNumberOfMessagesPerSecond"),
            int(queues.counts(source.name)["ApproximateNumberOfMessages"]),
        )
        with self._lock:
            known = self._tasks.setdefault(arn, deque(maxlen=_MOST_KNOWN))
            if any(one.status == "RUNNING" for one in known):
                raise SqsError(
                    UNSUPPORTED,
                    "There is already a task running. Only one active task is allowed for a source"
                    " queue arn at a given time.",
                )
            known.appendleft(task)
        threading.Thread(
            target=_run, args=(task, asked.caller), name="move-task", daemon=True
        ).start()
        return {"TaskHandle": task.handle}

    def _cancel(self, asked: Asked) -> Output:
        handle = asked.given["TaskHandle"]
        with self._lock:
            found = [one for some in self._tasks.values() for one in some if one.handle == handle]
        if not found or not found[0].may_cancel(asked.caller.key):
            said = "Task does not exist, runs no longer, or was started with another key."
            raise SqsError(RESOURCE_NOT_FOUND, said)
        found[0].cancelled.set()
        return {"ApproximateNumberOfMessagesMoved": found[0].moved}

    def _list(self, asked: Asked) -> Output:
        arn, most = asked.given["SourceArn"], asked.given.get("MaxResults", 1)
        _named(asked, "SourceArn", arn)
        with self._lock:
            known = list(self._tasks.get(arn, ()))[:most]
        return {"Results": [one.told(asked.caller.key) for one in known]} if known else {}


def _named(asked: Asked, parameter: str, arn: str) -> Queue:
    found = asked.queue_of(arn)
    if found is None:
        said = f"The resource that you specified for the {parameter} parameter doesn't exist."
        raise SqsError(RESOURCE_NOT_FOUND, said)
    return found


def _run(task: Task, caller: Caller) -> None:
    try:
        while not task.cancelled.is_set() and _move_some(task, caller):
            if task.per_second is not None:
                task.cancelled.wait(min(_AT_ONCE, task.per_second) / task.per_second)
        task.status = "CANCELLED" if task.cancelled.is_set() else "COMPLETED"
    except LakequeueError as error:
        task.failure, task.status = error.detail, "FAILED"
    except Exception:
        log.exception("move_task.failed", source=task.source)
        task.failure, task.status = "The gateway failed; its log has the details.", "FAILED"


def _move_some(task: Task, caller: Caller) -> bool:
    """Move a few; whether there were any."""
    most = _AT_ONCE if task.per_second is None else min(_AT_ONCE, task.per_second)
    body = {"max": most, "wait_ms": _WAIT_MS, "visibility_timeout_ms": _HIDDEN_MS}
    path = f"/v1/groups/{task.source}/receive"
    records = caller.services.ask_exactly(path, body, 60.0)["records"]
    moved = [_moved(task, record) for record in records]
    if not moved:
        return False
    services = caller.services
    try:
        services.reply(
            services.ingest, "POST", "/v1/records", orjson.dumps({"records": moved}), 30.0, 20.0
        )
    except UnknownTopic as error:
        _give_back(task, caller, records)
        raise UnknownTopic(error.detail, hint="name a DestinationArn") from error
    caller.settling.settle(task.source, [Action(one["receipt"], "ack") for one in records])
    task.moved += len(moved)
    return True


def _give_back(task: Task, caller: Caller, records: list[dict[str, Any]]) -> None:
    actions = [Action(one["receipt"], "return") for one in records]
    caller.settling.settle(task.source, actions)


def _moved(task: Task, record: dict[str, Any]) -> dict[str, Any]:
    """The record that takes the place of a dead one."""
    headers = record.get("headers") or []
    origin = next((h.get("value") for h in headers if h["key"] == DeadLetterHeader.TOPIC), None)
    place = parse_queue_receipt(record["receipt"])
    return {name: record[name] for name in _FIELDS if record.get(name) is not None} | {
        "topic": task.destination or origin or "",
        "headers": [one for one in headers if one["key"] not in DEAD_LETTER_HEADERS],
        "message_id": redrive_id(place.topic_id, place.partition, place.offset),
    }
