"""`Admin`: topics and groups, for programs and the command line. Blocking."""

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
        """(topic, whether it is new). Settings are those of `TopicConfig`.

        Raises `TopicExists` when it exists with other settings, unless `if_not_exists`.
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
        """Describe a topic; raises `UnknownTopic`."""
        return _read(TopicDescription, self._call(self._ingest, "GET", _topic(topic)))

    def topics(self) -> list[TopicDescription]:
        """All topics, by name."""
        return _read(TopicList, self._call(self._ingest, "GET", "/v1/topics")).topics

    def alter_topic(self, topic: str, **changes: Any) -> TopicDescription:
        """Change settings, those of `TopicChanges`; partitions only grow."""
        _checked(TopicChanges, changes)
        return _read(TopicDescription, self._call(self._ingest, "PATCH", _topic(topic), changes))

    def grow_topic(self, topic: str, partitions: int, timeout_s: float = 60.0) -> TopicDescription:
        """Give a topic more partitions once every group has all that is in the old ones.

        Nodes take no records of it meanwhile, which its producers wait for; `alter_topic` does not
        wait, and keeps no key in order over the change. Raises `NotDrained`: nothing has changed.
        """
        return repartition(self, topic, partitions, timeout_s)

    def settle_topic(self, topic: str, timeout_s: float = 10.0) -> None:
        """Of a closed topic: wait until all that any node has taken is ordered."""
        path = f"{_topic(topic)}/settle?timeout_ms={max(1, round(timeout_s * 1_000))}"
        self._call(self._ingest, "POST", path, takes_s=timeout_s)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic: its records are not delivered any more."""
        self._call(self._ingest, "DELETE", _topic(topic))

    # -- load -----------------------------------------------------------------------------------

    def advice(self, over_s: float = 5.0) -> AdviceAnswer:
        """What to add, by how the lag of all groups has gone for `over_s` seconds (at most 60).

        Takes as long, unless the node was asked shortly before.
        """
        query = f"?over_ms={round(over_s * 1_000)}"
        reply = self._call(self._consumer, "GET", f"/v1/advice{query}", takes_s=over_s)
        return _read(AdviceAnswer, reply)

    def nodes(self) -> NodeList:
        """The nodes of both services that are registered."""
        return _read(NodeList, self._call(self._ingest, "GET", "/v1/nodes"))

    # -- groups ---------------------------------------------------------------------------------

    def groups(self) -> list[GroupSummary]:
        """All groups, by name."""
        return _read(GroupList, self._call(self._consumer, "GET", "/v1/groups")).groups

    def group(self, group: str) -> GroupDescription:
        """Positions, lag, owners and members; raises `UnknownGroup`."""
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
        """Move a group that has no member; raises `GroupActive` naming the owners otherwise.

        `time`: a datetime with a zone, or whole microseconds since 1970 UTC (seconds are refused).
        With `topics` a group that does not exist is made, with `predicate` if that is given.
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
        """Deliver nothing of a group (a topic, some partitions of it) until it is resumed.

        When it returns no node lets anything more leave; what had left may still arrive, and a
        `Consumer` hands out what it had fetched ahead. Acks go on.
        """
        return self._pause(group, "pause", topic, partitions)

    def resume(
        self, group: str, topic: str | None = None, partitions: Sequence[int] | None = None
    ) -> PauseAnswer:
        """Deliver again. The newest word about a partition counts, whatever it was a part of."""
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
        """Send the dead records of `topic` back, or `to` a topic; blocks until it is done.

        See `lakequeue.client.redrive.redrive`.
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
        """Forget the positions of a group that has no member."""
        self._call(self._consumer, "DELETE", _group(group))

    def set_webhook(
        self, group: str, url: str, topics: Sequence[str], **options: Any
    ) -> WebhookDescription:
        """Have the group's records posted to `url`; the options are those of `WebhookRequest`.

        The answer has the secret to check signatures by (`lakequeue.wire.calls.webhooks.verify`):
        given as `secret=`, else the one it had, else a new one.
        """
        body = _checked(WebhookRequest, {"url": url, "topics": list(topics)} | options)
        said = body.model_dump(exclude_none=True)
        path = _group(group) + "/webhook"
        return _read(WebhookDescription, self._call(self._consumer, "PUT", path, said))

    def webhook(self, group: str) -> WebhookDescription:
        """The group's webhook, without its secret; raises `UnknownWebhook`."""
        return _read(
            WebhookDescription, self._call(self._consumer, "GET", _group(group) + "/webhook")
        )

    def delete_webhook(self, group: str) -> None:
        """Post no more; the group and its records stay."""
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
        """Look at records without a group, from `offset` or `time` on.

        `time`: a datetime with a zone, or whole microseconds since 1970 UTC (seconds are refused).
        With `key` only its records come; it also names the partition if none is given. Go on at
        `next_offset` while `more`: one call looks at a bounded number of records.
        """
        given = {"partition": partition, "key": key, "offset": offset, "time": time}
        query = _checked(BrowseQuery, given | {"max": max_records}).model_dump(exclude_none=True)
        path = f"{_topic(topic)}/records?{urlencode(query)}"
        answer = _read_exactly(BrowseAnswer, self._call(self._consumer, "GET", path))
        records = [Record(raw) for raw in answer.records]
        return Page(answer.partition, records, answer.next_offset, answer.end_offset)

    def record(self, topic: str, partition: int, offset: int) -> Record:
        """One record. Raises `OffsetOutOfRange`."""
        path = f"{_topic(topic)}/partitions/{partition}/records/{offset}"
        return Record(loads_exactly(self._call(self._consumer, "GET", path).body))

    def status(self, group: str, topic: str, partition: int, offset: int) -> RecordStatus:
        """What became of a record in a group: pending, in flight with whom, acked, dead, …

        Raises `UnknownTopic`, `UnknownRecord`, `UnknownGroup`.
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
