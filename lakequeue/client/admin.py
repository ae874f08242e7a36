"""`Admin`: topics and groups, for programs and the command line. Blocking."""

# longer than 400 lines: more than half of them are docstrings of public methods.
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlencode

import orjson
from pydantic import BaseModel, ValidationError

from lakequeue.calling import blocking_runner
from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.credentials import Credentials
from lakequeue.calling.effects import Reply, Request
from lakequeue.calling.nodes import Nodes
from lakequeue.client.record import Record
from lakequeue.client.repartitioning import repartition
from lakequeue.errors import Broken, InvalidRequest, TopicExists
from lakequeue.records import checked_name
from lakequeue.wire import (
    DEFAULT_CONSUMER_URL,
    DEFAULT_INGEST_URL,
    AdviceAnswer,
    BrowseAnswer,
    BrowseQuery,
    GroupDescription,
    GroupList,
    GroupSummary,
    NodeList,
    PauseAnswer,
    PauseRequest,
    RecordStatus,
    SeekAnswer,
    SeekRequest,
    SeekTo,
    TopicChanges,
    TopicConfig,
    TopicDescription,
    TopicList,
    WebhookDescription,
    WebhookRequest,
    loads_exactly,
)

if TYPE_CHECKING:
    from lakequeue.client.redriven import Redriven, Wanted

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Page:
    """A range of offsets of one partition."""

    partition: int
    records: list[Record]
    next_offset: int
    """Where to go on."""
    end_offset: int
    """Offset that the next record of the partition will get."""

    @property
    def more(self) -> bool:
        """Whether there is something at `next_offset` already."""
        return self.next_offset < self.end_offset


class Admin:
    """Creates, alters, describes and deletes topics; describes, moves and deletes groups.

    Every call is repeated for `timeout_s` while the services say "try again" or do not answer.
    It is a context manager.

    Args:
        urls: One or several ingest nodes.
        consumer_urls: One or several consumer-service nodes.
        timeout_s: How long a call is repeated.
        credentials: An API key or token, or `Credentials`; by default what the environment says.

    Example:
        from lakequeue import Admin

        with Admin() as admin:
            topic, is_new = admin.create_topic("orders", partitions=4, if_not_exists=True)
            print(topic.partitions, [group.group for group in admin.groups()])
    """

    def __init__(
        self,
        urls: str | Sequence[str] = DEFAULT_INGEST_URL,
        consumer_urls: str | Sequence[str] = DEFAULT_CONSUMER_URL,
        *,
        timeout_s: float = 10.0,
        credentials: Credentials | str | None = None,
    ) -> None:
        """`credentials`: an API key or token; by default what the environment says."""
        self._ingest = Nodes(urls)
        self._consumer = Nodes(consumer_urls)
        self._timeout_s = timeout_s
        self._http = blocking_runner.open_http(
            {}, self._ingest.urls + self._consumer.urls, credentials
        )
        self._closing = False
        self._signal = blocking_runner.new_signal()

    # -- topics ---------------------------------------------------------------------------------

    def create_topic(
        self, topic: str, *, if_not_exists: bool = False, **config: Any
    ) -> tuple[TopicDescription, bool]:
        """Create a topic.

        Args:
            topic: Name of the topic.
            if_not_exists: Do not raise if it exists with other settings.
            **config: Settings, those of `TopicConfig`.

        Returns:
            The topic, and whether it is new.

        Raises:
            TopicExists: It exists with other settings.
            InvalidRequest: A setting is not valid.
        """
        body = _checked(TopicConfig, config).model_dump()
        try:
            reply = self._call(self._ingest, "PUT", _topic(topic), body)
        except TopicExists:
            if not if_not_exists:
                raise
            return self.topic(topic), False
        return _read(TopicDescription, reply), reply.status == 201

    def topic(self, topic: str) -> TopicDescription:
        """Describe a topic.

        Args:
            topic: Name of the topic.

        Returns:
            Its settings and its partitions.

        Raises:
            UnknownTopic: There is no such topic.
        """
        return _read(TopicDescription, self._call(self._ingest, "GET", _topic(topic)))

    def topics(self) -> list[TopicDescription]:
        """List the topics.

        Returns:
            All topics, by name.
        """
        return _read(TopicList, self._call(self._ingest, "GET", "/v1/topics")).topics

    def alter_topic(self, topic: str, **changes: Any) -> TopicDescription:
        """Change settings of a topic.

        Args:
            topic: Name of the topic.
            **changes: Settings, those of `TopicChanges`. Partitions can only be added.

        Returns:
            The topic with its new settings.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidRequest: A setting is not valid.
        """
        _checked(TopicChanges, changes)
        return _read(TopicDescription, self._call(self._ingest, "PATCH", _topic(topic), changes))

    def grow_topic(self, topic: str, partitions: int, timeout_s: float = 60.0) -> TopicDescription:
        """Add partitions, and keep the records of each key in order.

        The topic takes no records until every group has consumed what is there; its producers wait.
        `alter_topic` does not wait, and keys are not in order over the change.

        Args:
            topic: Name of the topic.
            partitions: The new number of partitions.
            timeout_s: How long to wait for the groups.

        Returns:
            The topic with its new partitions.

        Raises:
            NotDrained: A group has not consumed everything in time. Nothing has changed.
        """
        return repartition(self, topic, partitions, timeout_s)

    def settle_topic(self, topic: str, timeout_s: float = 10.0) -> None:
        """Wait until all records that any node has taken for a closed topic are ordered.

        Args:
            topic: Name of the topic.
            timeout_s: How long to wait.

        Raises:
            UnknownTopic: There is no such topic.
        """
        path = f"{_topic(topic)}/settle?timeout_ms={max(1, round(timeout_s * 1_000))}"
        self._call(self._ingest, "POST", path, takes_s=timeout_s)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic. Its records are not delivered any more.

        Args:
            topic: Name of the topic.

        Raises:
            UnknownTopic: There is no such topic.
        """
        self._call(self._ingest, "DELETE", _topic(topic))

    # -- load -----------------------------------------------------------------------------------

    def advice(self, over_s: float = 5.0) -> AdviceAnswer:
        """Ask what to add, by how the lag of all groups changes.

        The call takes `over_s`, unless the node was asked shortly before.

        Args:
            over_s: For how many seconds to look; 60 at most.

        Returns:
            The advice, and the numbers that it goes by.
        """
        query = f"?over_ms={round(over_s * 1_000)}"
        reply = self._call(self._consumer, "GET", f"/v1/advice{query}", takes_s=over_s)
        return _read(AdviceAnswer, reply)

    def nodes(self) -> NodeList:
        """List the nodes of both services.

        Returns:
            The nodes that are registered.
        """
        return _read(NodeList, self._call(self._ingest, "GET", "/v1/nodes"))

    # -- groups ---------------------------------------------------------------------------------

    def groups(self) -> list[GroupSummary]:
        """List the groups.

        Returns:
            All groups, by name.
        """
        return _read(GroupList, self._call(self._consumer, "GET", "/v1/groups")).groups

    def group(self, group: str) -> GroupDescription:
        """Describe a group.

        Args:
            group: Name of the group.

        Returns:
            Its positions, lag, owners and members.

        Raises:
            UnknownGroup: There is no such group.
        """
        return _read(GroupDescription, self._call(self._consumer, "GET", _group(group)))

    def seek(
        self,
        group: str,
        to: SeekTo,
        *,
        offset: int | None = None,
        time: int | datetime | None = None,
        shift: int = 0,
        topics: Sequence[str] | None = None,
        partition: int | None = None,
        predicate: str | None = None,
        dry_run: bool = False,
    ) -> SeekAnswer:
        """Move a group that has no member to another position.

        Args:
            group: Name of the group. If `topics` are given, it is created if it does not exist.
            to: Where to: `"earliest"`, `"latest"`, `"committed"`, `"offset"` or `"time"`.
            offset: With `to="offset"`: the next offset to deliver.
            time: With `to="time"`: a datetime with a zone, or microseconds since 1970 UTC.
            shift: Is added to the position.
            topics: Only these topics.
            partition: Only this partition.
            predicate: Predicate of a group that is created.
            dry_run: Only say what would change.

        Returns:
            The old and the new positions.

        Raises:
            GroupActive: The group has members; the error names them.
            UnknownGroup: There is no such group, and no `topics` are given.
        """
        given = {
            "to": to,
            "offset": offset,
            "time": time,
            "shift": shift,
            "topics": None if topics is None else list(topics),
            "partition": partition,
            "predicate": predicate,
            "dry_run": dry_run,
        }
        body = _checked(SeekRequest, given).model_dump(exclude_none=True)
        return _read(SeekAnswer, self._call(self._consumer, "POST", _group(group) + "/seek", body))

    def pause(
        self, group: str, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> PauseAnswer:
        """Stop the deliveries of a group until `resume`. Acks go on.

        After the call no node sends any more records. Records that were on their way may still
        arrive, and a `Consumer` hands out what it had fetched.

        Args:
            group: Name of the group.
            topic: Only this topic.
            partitions: Only these partitions of `topic`.

        Returns:
            What is paused now.

        Raises:
            UnknownGroup: There is no such group.
        """
        return self._pause(group, "pause", topic, partitions)

    def resume(
        self, group: str, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> PauseAnswer:
        """Deliver again. For each partition the newest pause or resume counts.

        Args:
            group: Name of the group.
            topic: Only this topic.
            partitions: Only these partitions of `topic`.

        Returns:
            What is still paused.

        Raises:
            UnknownGroup: There is no such group.
        """
        return self._pause(group, "resume", topic, partitions)

    def _pause(
        self, group: str, verb: str, topic: str | None, partitions: Sequence[int] | None
    ) -> PauseAnswer:
        given = {"topic": topic, "partitions": None if partitions is None else list(partitions)}
        body = _checked(PauseRequest, given).model_dump(exclude_none=True)
        path = f"{_group(group)}/{verb}"
        return _read(PauseAnswer, self._call(self._consumer, "POST", path, body))

    def redrive(
        self,
        topic: str,
        *,
        wanted: Wanted | None = None,
        to: str | None = None,
        rate: float | None = None,
        on_progress: Callable[[Redriven], None] | None = None,
    ) -> Redriven:
        """Send dead records back to the topics that they came from. Blocks until it is done.

        If it is called again after a failure, no record is sent twice.

        Args:
            topic: A dead-letter topic.
            wanted: Which records; all by default.
            to: Send them to this topic instead.
            rate: Limit of records per second.
            on_progress: Called with the counts so far.

        Returns:
            How many were sent back, were not wanted, and have no topic any more.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidRequest: The topic is no dead-letter topic.
        """
        redrive = import_module("lakequeue.client.redrive").redrive
        done: Redriven = redrive(
            topic,
            urls=self._ingest.urls,
            consumer_urls=self._consumer.urls,
            wanted=wanted,
            to=to,
            rate=rate,
            on_progress=on_progress,
        )
        return done

    def delete_group(self, group: str) -> None:
        """Delete a group that has no member, with its positions.

        Args:
            group: Name of the group.

        Raises:
            UnknownGroup: There is no such group.
            GroupActive: The group has members.
        """
        self._call(self._consumer, "DELETE", _group(group))

    def set_webhook(
        self, group: str, url: str, topics: Sequence[str], **options: Any
    ) -> WebhookDescription:
        """Send the records of a group to a URL, by POST.

        Args:
            group: Name of the group.
            url: Where to.
            topics: Topics of the group.
            **options: The options of `WebhookRequest`.

        Returns:
            The webhook, with its secret if that is a new one: the receiver checks signatures by it
            (`lakequeue.wire.calls.webhooks.verify`). It is told once. Without `secret=` a webhook
            keeps the one it has, unless its URL changes.

        Raises:
            InvalidRequest: The URL or an option is not valid.
        """
        body = _checked(WebhookRequest, {"url": url, "topics": list(topics)} | options)
        said = body.model_dump(exclude_none=True)
        path = _group(group) + "/webhook"
        return _read(WebhookDescription, self._call(self._consumer, "PUT", path, said))

    def webhook(self, group: str) -> WebhookDescription:
        """Describe the webhook of a group, without its secret.

        Args:
            group: Name of the group.

        Returns:
            The webhook.

        Raises:
            UnknownWebhook: The group has none.
        """
        return _read(
            WebhookDescription, self._call(self._consumer, "GET", _group(group) + "/webhook")
        )

    def delete_webhook(self, group: str) -> None:
        """Delete the webhook of a group. The group and its records stay.

        Args:
            group: Name of the group.

        Raises:
            UnknownWebhook: The group has none.
        """
        self._call(self._consumer, "DELETE", _group(group) + "/webhook")

    # -- records --------------------------------------------------------------------------------

    def browse(
        self,
        topic: str,
        partition: int | None = None,
        *,
        key: str | None = None,
        offset: int | None = None,
        time: int | datetime | None = None,
        max_records: int = 100,
    ) -> Page:
        """Look at records without a group.

        One call looks at a limited number of records. Go on at `next_offset` while `more` is true.

        Args:
            topic: Name of the topic.
            partition: The partition; not needed with `key`.
            key: Only records with this key.
            offset: Begin at this offset.
            time: Begin at this time: a datetime with a zone, or microseconds since 1970 UTC.
            max_records: How many records to return at most.

        Returns:
            The records, and where to go on.

        Raises:
            UnknownTopic: There is no such topic.
            OffsetOutOfRange: The offset is not in the log.
        """
        given = {"partition": partition, "key": key, "offset": offset, "time": time}
        query = _checked(BrowseQuery, given | {"max": max_records}).model_dump(exclude_none=True)
        path = f"{_topic(topic)}/records?{urlencode(query)}"
        answer = _read_exactly(BrowseAnswer, self._call(self._consumer, "GET", path))
        records = [Record(raw) for raw in answer.records]
        return Page(answer.partition, records, answer.next_offset, answer.end_offset)

    def record(self, topic: str, partition: int, offset: int) -> Record:
        """Get one record.

        Args:
            topic: Name of the topic.
            partition: Its partition.
            offset: Its offset.

        Returns:
            The record.

        Raises:
            UnknownTopic: There is no such topic.
            OffsetOutOfRange: The offset is not in the log.
        """
        path = f"{_topic(topic)}/partitions/{partition}/records/{offset}"
        return Record(loads_exactly(self._call(self._consumer, "GET", path).body))

    def status(self, group: str, topic: str, partition: int, offset: int) -> RecordStatus:
        """Ask what happened to a record in a group.

        Args:
            group: Name of the group.
            topic: Name of the topic.
            partition: Partition of the record.
            offset: Offset of the record.

        Returns:
            Its status: pending, in flight (with which member), acked, dead, …

        Raises:
            UnknownTopic: There is no such topic.
            UnknownRecord: There is no such record.
            UnknownGroup: There is no such group.
        """
        path = f"{_group(group)}{_topic(topic).removeprefix('/v1')}"
        path += f"/partitions/{partition}/records/{offset}"
        return _read(RecordStatus, self._call(self._consumer, "GET", path))

    # -- shared ---------------------------------------------------------------------------------

    def _call(
        self, nodes: Nodes, method: str, path: str, body: Any = None, takes_s: float = 0.0
    ) -> Reply:
        content = None if body is None else orjson.dumps(body)
        request = Request(method, path, body=content, read_timeout_s=30.0 + takes_s)
        policy = CallPolicy(self._timeout_s, lambda: self._closing)
        script = call(nodes, request, time.monotonic, policy)
        return blocking_runner.run(script, self._http, self._signal).reply

    def close(self) -> None:
        """Close the connections."""
        self._closing = True
        self._signal.notify()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


def _topic(name: str) -> str:
    return f"/v1/topics/{checked_name(name, 'topic')}"


def _group(name: str) -> str:
    return f"/v1/groups/{checked_name(name, 'group')}"


def _checked(model: type[M], fields: dict[str, Any]) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(p) for p in first["loc"])
        raise InvalidRequest(f"{field}: {first['msg']}", hint="see docs/sdk.md", field=field) from e


def _read(model: type[M], reply: Reply) -> M:
    try:
        return model.model_validate_json(reply.body)
    except ValidationError as e:
        raise Broken(f"the answer cannot be read: {e}") from e


def _read_exactly(model: type[M], reply: Reply) -> M:
    """The same of an answer with records: their numbers are kept, and they may be nested deeply."""
    try:
        return model.model_validate(loads_exactly(reply.body))
    except ValueError as e:
        raise Broken(f"the answer cannot be read: {e}") from e
