"""Sends, from the request as it came to its answer, in steps: waiting costs no thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import orjson

from ingest.http.bodies import BINARY_EVENT, media_type, query_of, request_of
from ingest.http.cloud_events import attributes_of
from ingest.http.decompression import decompress
from ingest.metrics import Metrics
from ingest.node import IngestNode
from lakequeue import wire
from lakequeue.errors import LakequeueError, UnknownTopic, UnsupportedMediaType
from lakequeue.steps import Step, reach
from lakequeue.tracing import spans
from lakequeue.tracing.context import TRACEPARENT, TRACESTATE, TraceContext, context_of
from queue_access.audit_line import Line, Nowhere, Sink
from queue_access.doors import ANYBODY, Caller, owns_producer
from queue_access.rights import Kind, Right
from queue_rules.produce.answers import new_records
from queue_rules.produce.json_body import parts_of
from queue_rules.produce.rows import Request as Part
from queue_rules.produce.traces import put_trace, traces_of
from queue_rules.produce.validation import Limits
from queue_tables.schema.topic_rules import Topic
from serving.front.limits.budget import Lease
from serving.front.messages import Answer, Request, json_of
from serving.front.parking import Steps
from serving.json_cost import room, take
from serving.requests import is_minimal

_EVENT, _PARENT, _STATE = b"ce-specversion", TRACEPARENT.encode(), TRACESTATE.encode()
_GATHERED = wire.GATHERED.encode()
_PREFER = wire.PREFER.encode()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a send says beside its body."""

    query: Mapping[str, str]
    content_type: str
    encoding: str
    event: Mapping[str, str] | None
    """Attributes of a CloudEvent in binary mode."""
    caller: Caller = ANYBODY
    trace: TraceContext | None = None
    gathered: bool = False
    """See `wire.GATHERED`."""
    minimal: bool = False
    """See `wire.MINIMAL`."""


@dataclass(slots=True)
class Parsed:
    """A send that can be committed."""

    parts: list[Part]
    topics: list[Topic]
    numbers: Sequence[int]
    query: wire.ProduceQuery
    started: float
    size: int
    trace: TraceContext | None = None
    sender: Hashable = None
    """Its connection, if its sender has gathered it."""
    minimal: bool = False
    """See `wire.MINIMAL`."""

    @property
    def waits(self) -> bool:
        """Its answer says what was ordered."""
        return self.query.wait == "ordered" or self.parts[0].judged

    @property
    def redrives(self) -> str | None:
        """The topic of dead letters that it sends back from; None: it is no redrive."""
        consumed = self.parts[0].consumed
        if consumed is None or consumed.group != wire.redrive_group(consumed.topic):
            return None
        return consumed.topic

    def sent(self, answer: Mapping[str, Any] | None) -> dict[str, int]:
        """Topic → records that its answer says are new there; without an answer, all it has."""
        if answer is None:
            counts = [0 if part.bare else len(part.rows) for part in self.parts]
        else:
            counts = new_records(self.parts, self.numbers, answer)
        return {topic.topic: n for topic, n in zip(self.topics, counts, strict=True) if n}


Tell = Callable[[Mapping[str, int], LakequeueError | None], None]
"""What a redrive has sent, or why it failed: for the audit. For any thread."""


def asked_of(request: Request) -> Asked:
    """What a request says beside its body."""
    kind = encoding = event = parent = state = None
    gathered = minimal = False
    for name, value in request.headers:
        if name == b"content-type" and kind is None:
            kind = value.decode("latin-1")
        elif name == b"content-encoding" and encoding is None:
            encoding = value.decode("latin-1")
        elif name == _PARENT:
            # Several are not well formed, and together they are no context.
            parent = value if parent is None else parent + value
        elif name == _STATE:
            state = value if state is None else state + b"," + value
        elif name == _GATHERED:
            gathered = True
        elif name == _PREFER:
            minimal = minimal or is_minimal(value.decode("latin-1"))
        elif name == _EVENT:
            event = {n.decode("latin-1"): v.decode("latin-1") for n, v in reversed(request.headers)}
    query = _query_of(request.query) if request.query else {}
    attributes = None if event is None else attributes_of(event.items())
    trace = None if parent is None else context_of(parent, state)
    return Asked(
        query, kind or "", encoding or "", attributes, request.caller, trace, gathered, minimal
    )


def _query_of(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, value)
    return found


class Producing:
    """The sends of a node. Thread-safe."""

    def __init__(self, node: IngestNode, metrics: Metrics, audit: Sink | None = None) -> None:
        self._node = node
        self._metrics = metrics
        self._audit = audit or Nowhere()
        self._topic = node.fresh_topics.get

    def in_memory(self) -> Producing:
        """The same, without a look at storage: for the event loop. Parsing raises `NotInMemory`."""
        same = Producing(self._node, self._metrics, self._audit)
        same._topic = self._node.fresh_topics.in_memory
        return same

    def parse(self, name: str | None, asked: Asked, body: bytes, lease: Lease) -> Parsed:
        """Parse records of one topic, or, without a name, records that name theirs.

        Errors as `produce` of a node, all with `stored`.
        """
        started = time.perf_counter()
        try:
            if name is None:
                parsed = self._many_topics(asked, body, lease)
            else:
                parsed = self._one_topic(name, asked, body, lease)
        except LakequeueError as error:
            refused(name, asked.trace, time.perf_counter() - started, error)
            raise self._refused(error) from None
        parsed.trace, parsed.minimal = asked.trace, asked.minimal
        return parsed

    def steps(self, parsed: Parsed, tell: Tell | None = None) -> Steps[Answer]:
        """Commit, wait for the order if that was asked for, and answer."""
        try:
            answer = yield from self._node.steps(
                parsed.parts,
                parsed.topics,
                parsed.numbers,
                parsed.query,
                parsed.sender,
                minimal=parsed.minimal,
            )
        except LakequeueError as error:
            taken(parsed, error)
            if tell is not None:
                tell(parsed.sent(None), error)
            raise self._refused(error) from None
        taken(parsed, None)
        if tell is not None:
            tell(parsed.sent(answer), None)
        if faulty := sum([part.rows.faulty for part in parsed.parts]):
            self._metrics.faulty(faulty)
        count = sum(len(part.rows) for part in parsed.parts)
        producer, took = parsed.parts[0].producer_id, time.perf_counter() - parsed.started
        self._metrics.produced(count, parsed.size, took, producer)
        found = json_of(answer)
        found.sent = lambda: reach(Step.INGEST_ANSWERED)
        return found

    def _refused(self, error: LakequeueError) -> LakequeueError:
        error.stored = error.stored or "no"
        self._metrics.refused(error.code)
        return error

    def _one_topic(self, name: str, asked: Asked, body: bytes, lease: Lease) -> Parsed:
        started = time.perf_counter()
        kind = BINARY_EVENT if asked.event is not None else media_type(asked.content_type)
        query, envelope = query_of(asked.query, kind)
        topic = self._topic(name)
        body = self._unpacked(body, asked, lease)
        limits = self._node.limits_of(topic)
        # An Arrow body tells what it becomes once its columns are known.
        parsing = self._node.parsing
        with room(parsing, body if kind != "arrow" else b"") as held:
            more = partial(take, parsing, held)
            part = request_of(body, kind, envelope, topic.topic_id, limits, asked.event, more)
        may_send(asked.caller, part)
        return self._parsed([part], [topic], range(len(part.rows)), asked, query, started, lease)

    def _many_topics(self, asked: Asked, body: bytes, lease: Lease) -> Parsed:
        started = time.perf_counter()
        node = self._node
        if media_type(asked.content_type) != "json":
            raise UnsupportedMediaType("records of several topics come as JSON", hint=wire.JSON)
        query, _ = query_of(asked.query, "json")
        body = self._unpacked(body, asked, lease)
        with room(node.parsing, body):
            limits_of = partial(self._limits_of, asked.caller)
            parts = parts_of(body, limits_of, node.settings.max_request_records)
        for part in parts.requests:
            may_send(asked.caller, part)
        topics = [self._topic(name) for name in parts.topics]
        return self._parsed(parts.requests, topics, parts.numbers, asked, query, started, lease)

    def _parsed(
        self,
        parts: list[Part],
        topics: list[Topic],
        numbers: Sequence[int],
        asked: Asked,
        query: wire.ProduceQuery,
        started: float,
        lease: Lease,
    ) -> Parsed:
        if any(part.rows.dead for part in parts):
            made = partial(self._made, asked.caller)
            parts, topics, numbers = self._node.with_dead_letters(parts, topics, numbers, made)
        if asked.trace is not None:
            for part in parts:
                put_trace(part.rows, asked.trace)
        size = sum([part.rows.total_bytes for part in parts])
        lease.shrink_to(size)
        return Parsed(parts, topics, numbers, query, started, size)

    def _made(self, caller: Caller, topic: Topic, letters: Topic) -> None:
        """A send has made a topic for dead letters: who sent stands in the audit."""
        self._audit.changed(
            Line(
                principal=caller.principal,
                call="POST /v1/topics/{topic}/records",
                outcome="done",
                name=topic.topic,
                how=caller.how,
                detail="made",
                after=orjson.dumps({"dead_letter_topic": letters.topic}).decode(),
            )
        )

    def _limits_of(self, caller: Caller, name: str) -> tuple[str, Limits]:
        caller.must(Right.PRODUCE, Kind.TOPIC, name)
        topic = self._topic(name)
        return topic.topic_id, self._node.limits_of(topic)

    def _unpacked(self, body: bytes, asked: Asked, lease: Lease) -> bytes:
        limit = self._node.settings.max_request_bytes
        return decompress(body, asked.encoding, limit, lease.grow)


def taken(parsed: Parsed, error: LakequeueError | None) -> None:
    """A send is answered: its span, if this node traces."""
    if spans.tracer() is None:
        return
    spans.passed(
        "ingest",
        parsed.topics[0].topic if len(parsed.topics) == 1 else None,
        "SERVER",
        time.perf_counter() - parsed.started,
        parent=parsed.trace,
        links=traces_of(parsed.parts),
        attributes={"messaging.batch.message_count": sum(len(p.rows) for p in parsed.parts)},
        error=error,
    )


def refused(
    topic: str | None, trace: TraceContext | None, seconds: float, error: LakequeueError
) -> None:
    """The same of one that was not even parsed. A topic that is not there names no span."""
    known = None if isinstance(error, UnknownTopic) else topic
    spans.passed("ingest", known, "SERVER", seconds, parent=trace, error=error)


def may_send(caller: Caller, part: Part) -> None:
    """Raise `Forbidden` unless the caller may send it, as far as its body tells.

    To begin with an epoch is to shut others of that id out; to send with `consumed` is to consume.
    """
    producer = part.producer_id if part.producer_epoch is not None else None
    if producer is not None and not owns_producer(caller.principal, producer):
        caller.must(Right.PRODUCE, Kind.PRODUCER, producer)
    if part.consumed is not None:
        caller.must(Right.CONSUME, Kind.GROUP, part.consumed.group)
        caller.must(Right.CONSUME, Kind.TOPIC, part.consumed.topic)
