"""`Queue`: the verbs of people who think in queues. Blocking.

A queue is a topic and a queue group of the same name; everything else in lakequeue works with it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import orjson

from lakequeue.calling import addresses, blocking_runner, forks
from lakequeue.calling.addresses import Urls
from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.closing import Closes
from lakequeue.calling.credentials import Credentials
from lakequeue.calling.effects import Request
from lakequeue.calling.nodes import Nodes
from lakequeue.client.admin import Admin
from lakequeue.client.consuming.traces import received, settling
from lakequeue.client.message import Message, milliseconds_of
from lakequeue.client.producing.producer import Producer
from lakequeue.client.producing.record_options import HeadersIn
from lakequeue.errors import (
    AttemptSuperseded,
    GroupActive,
    LakequeueError,
    UnknownGroup,
    UnknownTopic,
)
from lakequeue.records import checked_name
from lakequeue.wire import DEFAULT_PARTITIONS

_AGAIN_S = 0.5


class Queue(Closes):
    """Sends, receives and deletes messages of one queue.

    A queue is a topic and a queue group of the same name. Every call is repeated for `timeout_s`
    while the services say "try again" or do not answer. A queue is thread-safe, and a context
    manager.

    Args:
        name: Name of the queue. It must exist; `Queue.create` creates it.
        urls: One or several ingest nodes; None: found as `Producer` finds them.
        consumer_urls: One or several consumer-service nodes; None: found likewise.
        timeout_s: How long a call is repeated.
        credentials: An API key or token, or `Credentials`; by default what the environment says.

    Raises:
        InvalidName: The name is not valid.

    Example:
        from lakequeue import Queue

        with Queue.create("mails", visibility_timeout_s=60) as queue:
            queue.send({"to": "ada@example.org"})
            for message in queue.receive(max=10, wait_s=5):
                print(message.value)
                queue.delete(message)
    """

    def __init__(
        self,
        name: str,
        urls: Urls | None = None,
        consumer_urls: Urls | None = None,
        *,
        timeout_s: float = 30.0,
        credentials: Credentials | str | None = None,
    ) -> None:
        self.name = checked_name(name, "queue")
        self._timeout_s = timeout_s
        self._admin = Admin(urls, consumer_urls, timeout_s=timeout_s, credentials=credentials)
        self._producer = Producer(
            urls, linger_ms=0, delivery_timeout_s=timeout_s, credentials=credentials
        )
        self._nodes = Nodes(addresses.consumer_urls(consumer_urls))
        self._http = blocking_runner.open_http({}, self._nodes.urls, credentials)
        self._signal = blocking_runner.new_signal()
        self._closing = False

    @classmethod
    def create(
        cls,
        name: str,
        urls: Urls | None = None,
        consumer_urls: Urls | None = None,
        *,
        visibility_timeout_s: float | None = None,
        max_attempts: int | None = None,
        ordering: Literal["none", "key"] | None = None,
        dead_letter_queue: str | None = None,
        partitions: int = DEFAULT_PARTITIONS,
        timeout_s: float = 30.0,
        credentials: Credentials | str | None = None,
    ) -> Queue:
        """Create the queue, unless it exists with these options.

        Args:
            name: Name of the queue.
            urls: One or several ingest nodes; None: found as `Producer` finds them.
            consumer_urls: One or several consumer-service nodes; None: found likewise.
            visibility_timeout_s: How long a received message is hidden from others; 30 by default.
            max_attempts: After this many receives a message goes to the dead-letter queue; 16 by
                default.
            ordering: `"key"`: the next message of a key comes only after the one before is deleted.
            dead_letter_queue: Its name; `<name>.dlq` by default.
            partitions: Partitions of the topic, if it is created.
            timeout_s: How long a call is repeated.
            credentials: An API key or token, or `Credentials`; by default from the environment.

        Returns:
            The queue, open.

        Raises:
            GroupMismatch: The queue exists with other options.
            InvalidRequest: An option is not valid.
        """
        queue = cls(name, urls, consumer_urls, timeout_s=timeout_s, credentials=credentials)
        try:
            queue._admin.create_topic(name, partitions=partitions, if_not_exists=True)
            options = {
                "visibility_timeout_ms": milliseconds_of(visibility_timeout_s, "visibility"),
                "max_attempts": max_attempts,
                "ordering": ordering,
                "dead_letter_topic": dead_letter_queue,
            }
            queue._call("PUT", "", {k: v for k, v in options.items() if v is not None})
        except BaseException:
            queue.close()
            raise
        return queue

    # -- sending --------------------------------------------------------------------------------

    def send(
        self,
        value: Any,
        *,
        key: Any = None,
        headers: HeadersIn = None,
        delay_s: float | None = None,
        message_id: str | None = None,
    ) -> str | None:
        """Send one message. It is durable when the call returns.

        Args:
            value: Text, bytes, or anything that JSON can hold.
            key: The same as `value`. It chooses the partition.
            headers: Pairs of name and value (text or bytes), or a mapping.
            delay_s: The message is received after this time, not earlier.
            message_id: An id of your own. A message with an id that was there before is dropped.

        Returns:
            The id of the message.

        Raises:
            LakequeueError: The message is not stored, or that is not known (`error.stored`).
        """
        handle = self._producer.send(
            self.name, value, key, headers=headers, delay_s=delay_s, message_id=message_id
        )
        return handle.result(self._timeout_s).message_id

    def send_batch(
        self, values: Iterable[Any], *, delay_s: float | None = None
    ) -> list[str | None]:
        """Send several messages. All are durable when the call returns.

        Args:
            values: One value for each message.
            delay_s: The messages are received after this time, not earlier.

        Returns:
            Their ids, in the same order.

        Raises:
            LakequeueError: One of them is not stored. Those before it may be.
        """
        handles = [self._producer.send(self.name, value, delay_s=delay_s) for value in values]
        return [handle.result(self._timeout_s).message_id for handle in handles]

    # -- receiving ------------------------------------------------------------------------------

    def receive(
        self,
        max: int = 1,  # noqa: A002 - the name that users of other queues look for
        wait_s: float = 0.0,
        visibility_timeout_s: float | None = None,
    ) -> list[Message]:
        """Receive messages, and hide them from others for some time.

        Delete each message when its work is done. Otherwise it is received again.

        Args:
            max: How many messages to return at most.
            wait_s: How long to wait for the first message.
            visibility_timeout_s: How long they are hidden; by default what the queue says.

        Returns:
            The messages. The list is empty if none came in time.

        Raises:
            UnknownGroup: The queue does not exist.
        """
        wait_ms = milliseconds_of(wait_s, "wait_s") or 0
        body: dict[str, Any] = {"max": max, "wait_ms": wait_ms}
        if visibility_timeout_s is not None:
            ms = milliseconds_of(visibility_timeout_s, "visibility_timeout_s")
            body["visibility_timeout_ms"] = ms
        began = time.monotonic()
        answer = self._call("POST", "/receive", body, read_timeout_s=30.0 + wait_s)
        received(self.name, answer["records"], time.monotonic() - began)
        return [Message(raw, None, 0, None, self._settle) for raw in answer["records"]]

    def delete(self, *messages: Message) -> None:
        """Delete messages: they are never received again. It is durable when the call returns.

        Args:
            *messages: Messages that `receive` returned.

        Raises:
            AttemptSuperseded: A message was hidden no longer and somebody else received it, or the
                queue was purged. The others are deleted.
        """
        self._say({"acks": [message.receipt for message in messages]}, messages)

    def change_visibility(self, message: Message, timeout_s: float) -> None:
        """Hide a message for longer, or give it back.

        Args:
            message: A message that `receive` returned.
            timeout_s: Hide it for this long from now on. 0 gives it back: it may be received again
                at once, or goes to the dead-letter queue after its last attempt.

        Raises:
            AttemptSuperseded: The message is not yours any more.
        """
        ms = milliseconds_of(timeout_s, "timeout_s")
        if not ms:
            self._say({"nacks": [{"receipt": message.receipt, "delay_ms": 0}]}, [message])
        else:
            extend = {"receipt": message.receipt, "visibility_timeout_ms": ms}
            self._say({"extend": [extend]}, [message])

    # -- the queue ------------------------------------------------------------------------------

    def purge(self) -> None:
        """Drop every message that is there now, also those that are hidden or delayed.

        Later deletes of messages that were received before raise `AttemptSuperseded`.
        """
        self._call("POST", "/purge", {"topics": [self.name]})

    def delete_queue(self) -> None:
        """Delete the queue and all that is in it. Its dead-letter queue stays.

        Raises:
            GroupActive: The queue still has consumers.
        """
        with contextlib.suppress(UnknownTopic):  # deleted before, and the group was not
            self._admin.delete_topic(self.name)
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                self._admin.delete_group(self.name)
            except UnknownGroup:
                return
            except GroupActive:
                # Other nodes keep a member for those who received there, for some seconds.
                if time.monotonic() > deadline:
                    raise
                self._signal.wait_until(lambda: self._closing, _AGAIN_S)
            else:
                return

    # -- shared ---------------------------------------------------------------------------------

    def _settle(self, does: str, message: Message, ms: int | None) -> None:
        """What `message.ack`, `nack` and `extend` do here: the same, at once."""
        if does == "ack":
            self.delete(message)
        elif does == "nack":
            nack: dict[str, Any] = {"receipt": message.receipt}
            nack |= {} if ms is None else {"delay_ms": ms}
            nack |= {} if message.nack_reason is None else {"reason": message.nack_reason}
            self._say({"nacks": [nack]}, [message])
        else:
            extend = {"receipt": message.receipt, "visibility_timeout_ms": ms}
            self._say({"extend": [extend]}, [message])

    def _say(self, body: dict[str, list[Any]], messages: Sequence[Message]) -> None:
        """Settle by receipt, at whichever node has the partition."""
        with settling(self.name, messages, [name.removesuffix("s") for name in body]) as span:
            self._settled(body, span.request_headers())

    def _settled(self, body: dict[str, list[Any]], headers: Mapping[str, str]) -> None:
        try:
            self._call("POST", "/acks", body, headers=headers)
        except AttemptSuperseded as error:
            refused = error.extra.get("refused", [])
            moved = {r["receipt"]: r["location"] for r in refused if r["why"] == "elsewhere"}
            if not moved:
                raise
            bad = error if len(moved) < len(refused) else None
            for url in sorted(set(moved.values())):
                there = {
                    name: [one for one in some if moved.get(_receipt(one)) == url]
                    for name, some in body.items()
                }
                try:
                    self._call("POST", "/acks", there, Nodes(url), headers=headers)
                except AttemptSuperseded as other:
                    bad = bad or other
            if bad is not None:
                raise bad from None

    def _call(
        self,
        method: str,
        path: str,
        body: Any,
        nodes: Nodes | None = None,
        read_timeout_s: float = 30.0,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        request = Request(
            method,
            f"/v1/groups/{self.name}{path}",
            body=orjson.dumps(body),
            read_timeout_s=read_timeout_s,
            headers=headers or {},
        )
        policy = CallPolicy(self._timeout_s, lambda: self._closing)
        script = call(nodes or self._nodes, request, time.monotonic, policy)
        return blocking_runner.run(script, self._http, self._signal).reply.json()

    def close(self) -> None:
        """Close the connections. Messages that are not deleted are received again later."""
        if forks.is_parents(self._signal.made_in):
            return  # what a forked child has of it is its parent's
        self._closing = True
        self._signal.notify()
        try:
            # Each `send` has waited, and has raised what became of its own record.
            with contextlib.suppress(LakequeueError):
                self._producer.close()
        finally:
            self._admin.close()
            self._http.close()


def _receipt(one: Any) -> str:
    return str(one if isinstance(one, str) else one["receipt"])
