"""Operations on queues: make, find, list, change, purge, delete."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from lakequeue.clock import boot_seconds
from sqs_gateway.calls.asked import Asked, Do, Output
from sqs_gateway.calls.queues import Queue
from sqs_gateway.rules import attributes as rules
from sqs_gateway.rules.errors import (
    PURGE_IN_PROGRESS,
    QUEUE_NAME_EXISTS,
    SqsError,
    no_such_queue,
)
from sqs_gateway.rules.kept import Kept, with_tags
from sqs_gateway.rules.names import checked_name, checked_new_name, is_fifo
from sqs_gateway.rules.pages import page_of
from sqs_gateway.rules.permissions import with_permission, without_permission

PURGE_EVERY_S = 60.0
_OF_TOPIC: Final = frozenset({"RedrivePolicy", "MessageRetentionPeriod"})
"""Attributes that are settings of the topic: there they hold for every client."""


def create_queue(asked: Asked) -> Output:
    """Make it, or find the same."""
    given = asked.given.get("Attributes") or {}
    name = checked_new_name(asked.given["QueueName"], fifo=_wants_fifo(given))
    attributes = rules.checked(given, fifo=is_fifo(name), new=True)
    rules.check_encryption(attributes)
    rules.check_together(attributes)
    tags = with_tags({}, asked.given.get("tags") or {})
    config = _config(asked, name, attributes)
    now = int(time.time())
    defaults = {"VisibilityTimeout": "30"}
    kept = Kept(defaults | _kept(attributes), tags, now, now)
    queues = asked.caller.queues
    if not queues.create(name, kept, {"ttl_ms": _ttl_ms(None), **config}):
        _check_same(asked, queues.newest(name), attributes)
    queues.ensure_group(name)
    return {"QueueUrl": asked.url(name)}


def _wants_fifo(given: Mapping[str, str]) -> bool:
    return given.get("FifoQueue", "").strip().lower() == "true"


def _kept(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in attributes.items() if text and name not in _OF_TOPIC}


def _ttl_ms(seconds: str | None) -> int:
    return int(seconds or rules.DECLARED["MessageRetentionPeriod"].default or 0) * 1_000


def _config(asked: Asked, name: str, attributes: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the topic that attributes stand for. Raises `SqsError`."""
    config: dict[str, Any] = {}
    if (seconds := attributes.get("MessageRetentionPeriod")) is not None:
        config["ttl_ms"] = _ttl_ms(seconds)
    policy = attributes.get("RedrivePolicy")
    if policy:
        redrive = rules.redrive_of(policy)
        target = _target(asked, name, redrive.target_arn)
        config |= {"max_attempts": redrive.receives, "dead_letter_topic": target.name}
    elif policy is not None:
        config |= {"max_attempts": None, "dead_letter_topic": None}
    rules.allows(attributes.get("RedriveAllowPolicy", ""), "")
    return config


def _target(asked: Asked, source: str, arn: str) -> Queue:
    target = asked.queue_of(arn)
    if target is None:
        raise rules.invalid_value("RedrivePolicy", "Dead letter target does not exist.")
    if target.fifo != is_fifo(source):
        said = "Dead-letter queue must be same type of queue as the source."
        raise rules.invalid_value("RedrivePolicy", said)
    if target.name == source or not rules.allows(
        target.get("RedriveAllowPolicy") or "", asked.names.arn(source)
    ):
        raise rules.invalid_value("RedrivePolicy", "The dead-letter queue does not allow it.")
    return target


def _check_same(asked: Asked, queue: Queue, given: Mapping[str, str]) -> None:
    there = _settable(asked, queue)
    for name, text in given.items():
        default = rules.DECLARED[name].default or ""
        if (there.get(name) or default) != (text or default):
            raise SqsError(
                QUEUE_NAME_EXISTS,
                "A queue already exists with the same name and a different value for attribute"
                f" {name}",
            )


def delete_queue(asked: Asked) -> Output:
    """Delete it, with what is in it."""
    asked.caller.queues.delete(asked.queue_name)
    return {}


def get_queue_url(asked: Asked) -> Output:
    """Where it is."""
    owner = asked.given.get("QueueOwnerAWSAccountId")
    name = checked_name(asked.given["QueueName"])
    if owner and owner != asked.names.account:
        raise no_such_queue()
    return {"QueueUrl": asked.url(asked.caller.queues.find(name).name)}


def list_queues(asked: Asked) -> Output:
    """Those that the caller may know of."""
    prefix = asked.given.get("QueueNamePrefix", "")
    names = [one.topic for one in asked.caller.queues.all() if one.topic.startswith(prefix)]
    return page_of(names, asked.given, "QueueUrls", asked.url)


def list_dead_letter_source_queues(asked: Asked) -> Output:
    """Those whose dead messages go to this one."""
    name = asked.queue().name
    sources = [
        one.topic
        for one in asked.caller.queues.all()
        if one.dead_letter_topic == name and one.max_attempts is not None
    ]
    return page_of(sources, asked.given, "queueUrls", asked.url)


def get_queue_attributes(asked: Asked) -> Output:
    """What it is like, and about how many messages it has."""
    wanted = rules.asked_for(asked.given.get("AttributeNames") or ())
    queue = asked.caller.queues.newest(asked.queue_name)
    found = _settable(asked, queue) | {
        "QueueArn": asked.names.arn(queue.name),
        "CreatedTimestamp": str(queue.kept.created_s),
        "LastModifiedTimestamp": str(queue.kept.modified_s),
    }
    if wanted & rules.COUNTS:
        found |= asked.caller.queues.counts(queue.name)
    told = {name: text for name, text in found.items() if name in wanted}
    return {"Attributes": told} if told else {}


def _settable(asked: Asked, queue: Queue) -> dict[str, str]:
    """The attributes that somebody has set, and the defaults of the others."""
    found = {
        one.name: text
        for one in rules.DECLARED.values()
        if (not one.of_fifo or queue.fifo) and (text := queue.get(one.name)) is not None
    }
    if queue.fifo:
        found["FifoQueue"] = "true"
    if queue.visibility_s is None:
        found["VisibilityTimeout"] = _of_group(asked, queue.name)
    ttl_ms = queue.topic.ttl_ms
    most = rules.DECLARED["MessageRetentionPeriod"].most
    found["MessageRetentionPeriod"] = str(most if ttl_ms is None else max(1, ttl_ms // 1_000))
    redrive = queue.redrive(asked.names)
    if redrive is not None:
        found["RedrivePolicy"] = redrive.text()
    return found


def _of_group(asked: Asked, name: str) -> str:
    """How long a queue hides what is received that somebody has made with another client."""
    options = asked.caller.queues.group_options(name)
    return str(max(0, round(int(options.get("visibility_timeout_ms") or 30_000) / 1_000)))


def set_queue_attributes(asked: Asked) -> Output:
    """Change what is given."""
    queue = asked.caller.queues.newest(asked.queue_name)
    attributes = rules.checked(asked.given["Attributes"], fifo=queue.fifo, new=False)
    rules.check_encryption(attributes)
    config = _config(asked, queue.name, attributes)
    gone = {name for name, text in attributes.items() if not text} | rules.replaced_by(attributes)
    kept = {n: t for n, t in queue.kept.attributes.items() if n not in gone} | _kept(attributes)
    rules.check_together(kept)
    changed = Kept(kept, queue.kept.tags, queue.kept.created_s, queue.kept.modified_s)
    asked.caller.queues.change(queue, changed, config)
    return {}


class Purging:
    """Purges, one a minute of each queue."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def purge_queue(self, asked: Asked) -> Output:
        """Drop every message that is there now."""
        name = asked.queue().name
        now = boot_seconds()
        if now - self._at.get(name, float("-inf")) < PURGE_EVERY_S:
            said = f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."
            raise SqsError(PURGE_IN_PROGRESS, said)
        asked.caller.queues.purge(name)
        self._at = {n: at for n, at in self._at.items() if now - at < PURGE_EVERY_S} | {name: now}
        return {}


def tag_queue(asked: Asked) -> Output:
    """Add tags, or change them."""
    queue = asked.caller.queues.newest(asked.queue_name)
    tags = with_tags(queue.kept.tags, asked.given["Tags"])
    _change_tags(asked, queue, tags)
    return {}


def untag_queue(asked: Asked) -> Output:
    """Take tags away."""
    queue = asked.caller.queues.newest(asked.queue_name)
    gone = set(asked.given["TagKeys"])
    _change_tags(asked, queue, {n: text for n, text in queue.kept.tags.items() if n not in gone})
    return {}


def _change_tags(asked: Asked, queue: Queue, tags: Mapping[str, str]) -> None:
    kept = queue.kept
    changed = Kept(kept.attributes, tags, kept.created_s, kept.modified_s)
    asked.caller.queues.change(queue, changed, {})


def list_queue_tags(asked: Asked) -> Output:
    """The tags."""
    tags = asked.caller.queues.newest(asked.queue_name).kept.tags
    return {"Tags": dict(tags)} if tags else {}


def add_permission(asked: Asked) -> Output:
    """Keep a permission, and show it in `Policy`."""
    given = asked.given
    queue = asked.caller.queues.newest(asked.queue_name)
    policy = with_permission(
        queue.get("Policy"),
        asked.names.arn(queue.name),
        given["Label"],
        given["AWSAccountIds"],
        given["Actions"],
    )
    _change_policy(asked, queue, policy)
    return {}


def remove_permission(asked: Asked) -> Output:
    """Keep it no longer."""
    queue = asked.caller.queues.newest(asked.queue_name)
    arn = asked.names.arn(queue.name)
    policy = without_permission(queue.get("Policy"), arn, asked.given["Label"])
    _change_policy(asked, queue, policy)
    return {}


def _change_policy(asked: Asked, queue: Queue, policy: str) -> None:
    kept = queue.kept
    others = {name: text for name, text in kept.attributes.items() if name != "Policy"}
    attributes = others | ({"Policy": policy} if policy else {})
    changed = Kept(attributes, kept.tags, kept.created_s, kept.modified_s)
    asked.caller.queues.change(queue, changed, {})


def operations() -> dict[str, Do]:
    """By name."""
    return {
        "CreateQueue": create_queue,
        "DeleteQueue": delete_queue,
        "GetQueueUrl": get_queue_url,
        "ListQueues": list_queues,
        "GetQueueAttributes": get_queue_attributes,
        "SetQueueAttributes": set_queue_attributes,
        "PurgeQueue": Purging().purge_queue,
        "TagQueue": tag_queue,
        "UntagQueue": untag_queue,
        "ListQueueTags": list_queue_tags,
        "AddPermission": add_permission,
        "RemovePermission": remove_permission,
        "ListDeadLetterSourceQueues": list_dead_letter_source_queues,
    }
