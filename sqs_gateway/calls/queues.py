"""Queues: which there are, what they are like, made and deleted."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakequeue.clock import boot_seconds
from lakequeue.errors import (
    GroupActive,
    GroupMismatch,
    LakequeueError,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
)
from lakequeue.wire import MAX_ATTEMPTS, TopicDescription
from serving.front.limits.shares import Pool
from sqs_gateway.calls.services import Services
from sqs_gateway.rules.attributes import DECLARED, Redrive
from sqs_gateway.rules.errors import SqsError, no_such_queue
from sqs_gateway.rules.kept import Kept, kept_in, with_kept
from sqs_gateway.rules.messages import Rules
from sqs_gateway.rules.names import Names, is_fifo

KNOWN_S = 1.0
"""What was found of a queue is believed for so long: a change at another gateway is seen then."""
_OLD_S, _MOMENT_S = 0.6, 0.1
_MOST_KNOWN = 20_000
_FIFO_WINDOW_MS = 300_000
_DELETE_S = 5.0
_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as SQS sees it: a topic, and the group of the same name."""

    topic: TopicDescription
    kept: Kept

    @property
    def name(self) -> str:
        """Its name."""
        return self.topic.topic

    @property
    def fifo(self) -> bool:
        """Whether it is a FIFO queue."""
        return is_fifo(self.name)

    def get(self, name: str) -> str | None:
        """An attribute that is kept, or what stands for it."""
        return self.kept.attributes.get(name) or DECLARED[name].default

    def number(self, name: str) -> int:
        """The same of a number."""
        return int(self.get(name) or 0)

    @property
    def visibility_s(self) -> int | None:
        """How long what is received is hidden; None: as the group says."""
        given = self.kept.attributes.get("VisibilityTimeout")
        return None if given is None else int(given)

    def redrive(self, names: Names) -> Redrive | None:
        """Where messages go that were received too often."""
        receives = self.topic.max_attempts
        if receives is None or self.topic.dead_letter_topic is None:
            return None
        return Redrive(names.arn(self.topic.dead_letter_topic), receives)

    @property
    def rules(self) -> Rules:
        """What it asks of its messages."""
        return Rules(
            self.name,
            self.topic.topic_id,
            self.fifo,
            self.number("DelaySeconds"),
            self.number("MaximumMessageSize"),
            self.get("ContentBasedDeduplication") == "true",
            self.get("DeduplicationScope") == "messageGroup",
        )


class Queues:
    """The queues that one caller may know. Thread-safe."""

    def __init__(
        self,
        services: Services,
        partitions: int,
        pool: Pool,
        now: Callable[[], float] = boot_seconds,
    ) -> None:
        self._services = services
        self._pool = pool
        self._asking: set[str] = set()
        self._partitions = partitions
        self._now = now
        self._known: dict[str, tuple[float, Queue]] = {}
        self._listed: tuple[float, list[TopicDescription]] = (float("-inf"), [])
        self._pause = threading.Event()

    def find(self, name: str) -> Queue:
        """The queue of that name. Raises `SqsError`."""
        known = self._known.get(name)
        if known is not None and self._now() - known[0] < KNOWN_S:
            return known[1]
        return self.newest(name)

    def at_hand(self, name: str) -> bool:
        """Whether `find` does not block, now and for a moment. What is asked for again and again is
        looked up again in time, in a thread."""
        known = self._known.get(name)
        if known is None:
            return False
        age_s = self._now() - known[0]
        if age_s > _OLD_S and name not in self._asking:
            self._asking.add(name)
            self._pool.submit(lambda: self._ask_again(name))
        return age_s < KNOWN_S - _MOMENT_S

    def _ask_again(self, name: str) -> None:
        try:
            self.newest(name)
        except (SqsError, LakequeueError):
            # Whoever asks for it next is told.
            self._known.pop(name, None)
        finally:
            self._asking.discard(name)

    def newest(self, name: str) -> Queue:
        """The same, as it is now."""
        try:
            return self._learn(self._services.admin.topic(name))
        except UnknownTopic:
            self._known.pop(name, None)
            raise no_such_queue() from None

    def all(self) -> list[TopicDescription]:
        """Every queue, by name."""
        at, listed = self._listed
        if self._now() - at >= KNOWN_S:
            listed = self._services.admin.topics()
            self._listed = self._now(), listed
        return listed

    def forget(self, name: str) -> None:
        """It has changed."""
        self._known.pop(name, None)
        self._listed = float("-inf"), []

    def _learn(self, topic: TopicDescription) -> Queue:
        queue = Queue(topic, kept_in(topic.annotations))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[topic.topic] = self._now(), queue
        return queue

    # -- changes ----------------------------------------------------------------------------------

    def create(self, name: str, kept: Kept, config: Mapping[str, Any]) -> bool:
        """Make a queue, unless there is a topic of that name; whether it was made."""
        if is_fifo(name):
            config = {"dedup_window_ms": _FIFO_WINDOW_MS, **config}
        try:
            _, made = self._services.admin.create_topic(
                name, partitions=self._partitions, annotations=with_kept(None, kept), **config
            )
        except TopicExists:
            made = False
        self.forget(name)
        return made

    def ensure_group(self, name: str) -> None:
        """Have the group of the queue, with the options that SQS needs; one that is there stays.

        Without a `RedrivePolicy` a message is received again and again. With one the topic says how
        often, and its word comes first.
        """
        options: dict[str, Any] = {"max_attempts": MAX_ATTEMPTS, "backoff_ms": 0}
        if is_fifo(name):
            options["ordering"] = "key"
        services = self._services
        with contextlib.suppress(GroupMismatch):
            services.ask(services.consumer, "PUT", f"/v1/groups/{name}", options)

    def change(self, queue: Queue, kept: Kept, config: Mapping[str, Any]) -> None:
        """Keep something else of it, and change its topic."""
        kept = replace(kept, modified_s=int(time.time()))
        text = with_kept(queue.topic.annotations, kept)
        try:
            self._services.admin.alter_topic(queue.name, annotations=text, **config)
        except UnknownTopic:
            raise no_such_queue() from None
        finally:
            self.forget(queue.name)

    def delete(self, name: str) -> None:
        """Delete topic and group. What its dead-letter queue has stays."""
        try:
            self._services.admin.delete_topic(name)
        except UnknownTopic:
            raise no_such_queue() from None
        finally:
            self.forget(name)
        deadline = self._now() + _DELETE_S
        while self._now() < deadline:
            try:
                self._services.admin.delete_group(name)
            except UnknownGroup:
                return
            except GroupActive:
                # Somebody still receives: a long poll ends when it sees that the topic is gone.
                self._pause.wait(_AGAIN_S)
            else:
                return

    def purge(self, name: str) -> None:
        """Drop every message that is there now."""
        services = self._services
        try:
            services.ask(services.consumer, "POST", f"/v1/groups/{name}/purge", {"topics": [name]})
        except UnknownTopic:
            raise no_such_queue() from None
        except UnknownGroup:
            # Nobody has ever received: a new group begins at the first message.
            self.ensure_group(name)
            services.ask(services.consumer, "POST", f"/v1/groups/{name}/purge", {"topics": [name]})

    def group_options(self, name: str) -> Mapping[str, Any]:
        """The options of its group; none if nobody has ever received."""
        try:
            return self._services.admin.group(name).options or {}
        except UnknownGroup:
            return {}

    def counts(self, name: str) -> dict[str, str]:
        """About how many messages wait, are with somebody, and are delayed."""
        try:
            counts = self._services.admin.counts(name, name)
        except UnknownTopic:
            raise no_such_queue() from None
        return {
            "ApproximateNumberOfMessages": str(counts.pending),
            "ApproximateNumberOfMessagesNotVisible": str(counts.in_flight + counts.dying),
            "ApproximateNumberOfMessagesDelayed": str(counts.parked),
        }


def checked_target(queues: Queues, names: Names, arn: str) -> Queue:
    """The queue that an ARN names. Raises `SqsError`."""
    name = names.of_arn(arn)
    if name is None:
        raise no_such_queue()
    return queues.find(name)
