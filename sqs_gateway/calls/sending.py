"""Messages on their way into the queue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import orjson

from lakequeue.calling.nodes import Nodes
from lakequeue.errors import LakequeueError, NotOrdered, Rejected
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


class Sending:
    """Sends in the name of one caller. Thread-safe."""

    def __init__(self, services: Services, pool: Pool) -> None:
        self._services = services
        self._nodes: Nodes = services.ingest

        def size(record: _Record) -> int:
            return record.sent.size + _ENVELOPE

        self._durable = Combined(
            lambda some: self._post(some, ordered=False),
            pool=pool,
            at_once=_AT_ONCE,
            most=_MOST_BYTES,
            size=size,
        )
        self._ordered = Combined(
            lambda some: self._post(some, ordered=True),
            pool=pool,
            at_once=_ORDERED_AT_ONCE,
            most=_MOST_BYTES,
            size=size,
        )

    def begin(
        self, topic: str, messages: Sequence[Sent], *, ordered: bool
    ) -> Future[list[int | Exception | None]]:
        """What became of each message, when it is durable: None, its offset if it is `ordered` (a
        copy has that of the first), or the error."""
        way = self._ordered if ordered else self._durable
        return way.begin([_Record(topic, message) for message in messages])

    def _post(self, records: list[_Record], *, ordered: bool) -> list[int | Exception | None]:
        try:
            return self._post_together(records, ordered=ordered)
        except Rejected as error:
            if len(records) == 1:
                return [error]
        # One of them is refused, and with it all: each by itself, then.
        found: list[int | Exception | None] = []
        for record in records:
            try:
                found += self._post_together([record], ordered=ordered)
            except LakequeueError as error:
                found.append(error)
        return found

    def _post_together(
        self, records: list[_Record], *, ordered: bool
    ) -> list[int | Exception | None]:
        body = orjson.dumps({"records": [record.json() for record in records]})
        path = f"/v1/records?wait=ordered&timeout_ms={_ORDER_MS}" if ordered else "/v1/records"
        reply = self._services.reply(self._nodes, "POST", path, body, 30.0, CALL_S, _GATHERED)
        answer = reply.json()
        return [_outcome(one, ordered=ordered) for one in answer["records"]]


def _outcome(answered: dict[str, Any], *, ordered: bool) -> int | Exception | None:
    if not ordered:
        return None
    offset: int | None = answered.get("offset")
    if offset is None:
        why = answered.get("reason") or "it was not ordered"
        return NotOrdered(f"the message has no offset: {why}", hint="send it again", stored="no")
    return offset
