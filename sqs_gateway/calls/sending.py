"""Messages on their way into the queue."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from lakequeue.calling.nodes import Nodes
from lakequeue.errors import LakequeueError, NotOrdered, Rejected, TopicClosed
from lakequeue.wire import GATHERED, headers_to_json
from serving.front.limits.shares import Pool
from sqs_gateway.calls.combining import Combined
from sqs_gateway.calls.services import CALL_S, Services
from sqs_gateway.rules.messages import Sent

_AT_ONCE = 1
"""Each request is a part of a commit, and costs more than what is in it: rather few and large."""
_ORDERED_AT_ONCE = 4
"""They wait for the order job as well."""
_GATHERED = {GATHERED: "true"}
_MOST_BYTES = 4 << 20
_ENVELOPE = 200
"""Bytes of a record's JSON beside its body, about."""
_ORDER_MS = 15_000


@dataclass(frozen=True, slots=True)
class _Record:
    topic: str
    sent: Sent

    def json(self) -> dict[str, Any]:
        """As `POST /v1/records` takes it."""
        sent = self.sent
        record: dict[str, Any] = {
            "topic": self.topic,
            "value": sent.body,
            "message_id": sent.message_id,
        }
        if sent.key is not None:
            record["key"] = sent.key
        if sent.delay_s:
            record["delay_ms"] = math.ceil(sent.delay_s * 1_000)
        if headers := sent.headers:
            record["headers"] = headers_to_json(
                (name, value.encode() if isinstance(value, str) else value)
                for name, value in headers
            )
        return record


Result = int | Exception | None
Line = Combined[_Record, int | None]


def _size(record: _Record) -> int:
    return record.sent.size + _ENVELOPE


class Sending:
    """Sends in the name of one caller. Thread-safe.

    A topic that takes no records for a while (`TopicClosed`) would keep those of others waiting:
    what is sent to it has a line of its own until it takes records again.
    """

    def __init__(self, services: Services, pool: Pool) -> None:
        self._services = services
        self._nodes: Nodes = services.ingest
        self._pool = pool
        self._together = {
            False: self._line(partial(self._post, ordered=False), _AT_ONCE),
            True: self._line(partial(self._post, ordered=True), _ORDERED_AT_ONCE),
        }
        self._lock = threading.Lock()
        self._closed: dict[tuple[str, bool], Line] = {}
        """By topic, and whether its records are `ordered`."""

    def _line(self, do: Callable[[list[_Record]], list[Result]], at_once: int) -> Line:
        return Combined(do, pool=self._pool, at_once=at_once, most=_MOST_BYTES, size=_size)

    def begin(self, topic: str, messages: Sequence[Sent], *, ordered: bool) -> Future[list[Result]]:
        """What became of each message, when it is durable: None, its offset if it is `ordered` (a
        copy has that of the first), or the error."""
        records = [_Record(topic, message) for message in messages]
        with self._lock:
            closed = self._closed.get((topic, ordered))
        if closed is not None:
            return closed.begin(records)
        found: Future[list[Result]] = Future()

        def sent(done: Future[list[Result]]) -> None:
            results = done.result()
            left = [n for n, one in enumerate(results) if isinstance(one, TopicClosed)]
            if not left:
                found.set_result(results)
                return

            def again(late: Future[list[Result]]) -> None:
                for number, one in zip(left, late.result(), strict=True):
                    results[number] = one
                found.set_result(results)

            apart = self._apart(topic, ordered).begin([records[n] for n in left])
            apart.add_done_callback(again)

        self._together[ordered].begin(records).add_done_callback(sent)
        return found

    def _apart(self, topic: str, ordered: bool) -> Line:
        """The line of a topic that is closed. It takes one thread, however many send to it."""

        def post(records: list[_Record]) -> list[Result]:
            try:
                results = self._post(records, ordered=ordered, waits=True)
            except TopicClosed:
                raise
            except LakequeueError as error:
                results = [error] * len(records)
            with self._lock:
                self._closed.pop((topic, ordered), None)
            return results

        with self._lock:
            found = self._closed.get((topic, ordered))
            if found is None:
                found = self._closed[topic, ordered] = Combined(
                    post,
                    pool=self._pool,
                    at_once=1,
                    most=_MOST_BYTES,
                    size=_size,
                    most_slow=0,
                )
            return found

    def _post(self, records: list[_Record], *, ordered: bool, waits: bool = False) -> list[Result]:
        """`waits`: until the topic takes records again, for a while."""
        try:
            return self._post_together(records, ordered=ordered, waits=waits)
        except TopicClosed as error:
            topics = {record.topic for record in records}
            if len(topics) == 1:
                if waits:
                    raise
                return [error] * len(records)
            return self._post_by_topic(records, topics, ordered=ordered)
        except Rejected as error:
            if len(records) == 1:
                return [error]
        # One of them is refused, and with it all: each by itself, then.
        found: list[Result] = []
        for record in records:
            try:
                found += self._post_together([record], ordered=ordered, waits=waits)
            except LakequeueError as error:
                found.append(error)
        return found

    def _post_by_topic(
        self, records: list[_Record], topics: set[str], *, ordered: bool
    ) -> list[Result]:
        found: dict[int, Result] = {}
        for topic in topics:
            numbers = [n for n, record in enumerate(records) if record.topic == topic]
            try:
                results = self._post([records[n] for n in numbers], ordered=ordered)
            except LakequeueError as error:
                results = [error] * len(numbers)
            found |= zip(numbers, results, strict=True)
        return [found[n] for n in range(len(records))]

    def _post_together(self, records: list[_Record], *, ordered: bool, waits: bool) -> list[Result]:
        body = orjson.dumps({"records": [record.json() for record in records]})
        path = f"/v1/records?wait=ordered&timeout_ms={_ORDER_MS}" if ordered else "/v1/records"
        final = () if waits else (TopicClosed,)
        reply = self._services.reply(
            self._nodes, "POST", path, body, 30.0, CALL_S, _GATHERED, final
        )
        answer = reply.json()
        return [_outcome(one, ordered=ordered) for one in answer["records"]]


def _outcome(answered: dict[str, Any], *, ordered: bool) -> Result:
    if not ordered:
        return None
    offset: int | None = answered.get("offset")
    if offset is None:
        why = answered.get("reason") or "it was not ordered"
        return NotOrdered(f"the message has no offset: {why}", hint="send it again", stored="no")
    return offset
