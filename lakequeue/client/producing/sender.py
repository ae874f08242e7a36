"""How a producer's records get acknowledged: the core that both producers share."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from lakequeue.calling import forks
from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.discovery import find
from lakequeue.calling.effects import Now, Request, Script, Together, Wait
from lakequeue.calling.nodes import Nodes
from lakequeue.client.producing.handles import acknowledge, give_up, tell
from lakequeue.client.producing.outgoing import Outgoing, RecordMetadata, check_id
from lakequeue.client.producing.produce_responses import (
    Answered,
    Place,
    Produced,
    not_ordered,
    read_answer,
    read_produced,
    reason_of,
)
from lakequeue.client.producing.producer_batch import ProducerBatch, whole_body
from lakequeue.client.producing.record_accumulator import Ledger, Limits, RecordAccumulator
from lakequeue.client.producing.record_options import HeadersIn, timing_of
from lakequeue.client.producing.refused_records import about_record, index_at_fault, was_chosen
from lakequeue.client.producing.routing import Routing
from lakequeue.client.producing.traces import created, may_trace, sending
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    NotReady,
    ProducerFenced,
    TooLarge,
    UnsupportedMediaType,
)
from lakequeue.records import checked_name
from lakequeue.tracing.spans import Tracing
from lakequeue.wire import (
    ARROW_STREAM,
    MINIMAL,
    PREFER,
    Consumed,
    EpochAnswer,
)

_log = logging.getLogger("lakequeue.producer")
Acks = Literal["committed", "ordered"]
OnAck = Callable[[Outgoing, RecordMetadata], None]
OnError = Callable[[Outgoing, LakequeueError], None]
R = TypeVar("R", bound=Outgoing)
_ORDER_TIMEOUT_MS = 10_000


class Sender:
    """State and scripts of a producer. `lock` protects all of it; `notify` says that it changed."""

    def __init__(
        self,
        nodes: Nodes,
        producer_id: str,
        acks: Acks,
        limits: Limits,
        delivery_timeout_s: float,
        now: Now,
        notify: Callable[[], None],
        on_ack: OnAck | None,
        on_error: OnError | None,
        fence: bool = False,
        run: str | None = None,
    ) -> None:
        """`run`: what names this life of a producer whose name is not its own alone."""
        if acks not in {"committed", "ordered"}:
            raise InvalidRequest(f"acks={acks!r}", hint="'committed' or 'ordered'", field="acks")
        if not 1 <= limits.batch_size <= 10_000:
            raise InvalidRequest(
                f"batch_size={limits.batch_size}", hint="1 to 10000", field="batch_size"
            )
        self.made_in = forks.process
        self.nodes = nodes
        self.producer_id = producer_id
        self.ledger = Ledger(limits)
        self.last_stamp: int | None = None
        self.aborted = False
        self.lock = threading.RLock()
        self._acks = acks
        self._limits = limits
        self._delivery_timeout_s = delivery_timeout_s
        self._now = now
        self._notify = notify
        self._on_ack = on_ack
        self._on_error = on_error
        self._accumulators: dict[str, RecordAccumulator] = {}
        self._columns = True
        """Whether the nodes take Arrow: the queue in memory does not."""
        self.closed = False
        self.fence = fence
        self._run = run
        self.epoch: int | None = None
        """Of a fenceable producer, once it has begun."""
        self.fenced: ProducerFenced | None = None
        """A newer instance has begun: nothing more can be sent."""
        self.next_sequences: dict[str, int] = {}
        self._routing = Routing(nodes, now)
        if fence:
            checked_name(producer_id, "producer")

    # -- the caller's side ----------------------------------------------------------------------

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        *,
        headers: HeadersIn = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
        message_id: str | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | int | None = None,
        ttl_s: float | None = None,
        made: type[R] = Outgoing,  # type: ignore[assignment]
    ) -> R:
        """The record, checked and encoded, not queued yet. It takes the `RecordOptions`."""
        # Before any lock: it may be one that a thread of the parent had.
        if self.closed or self.fenced is not None or self.made_in is not forks.process:
            self._refuse_when_closed()
        if topic not in self._accumulators:
            checked_name(topic, "topic")
        record = made(topic, value, key, partition)
        timed = delay_s is not None or deliver_at is not None or ttl_s is not None
        if headers or timed or timestamp is not None or message_id is not None or may_trace():
            timing = timing_of(delay_s, deliver_at, ttl_s) if timed else None
            if message_id is not None:
                check_id(message_id)
            headers, trace = created(topic, headers, self.producer_id, partition)
            record.add_more(headers, timestamp, message_id, timing, trace)
        record.check()
        return record

    def queue(self, record: Outgoing) -> RecordAccumulator | None:
        """Queue a prepared record; the caller has waited for room. A new record accumulator is
        returned: its `deliver` script has to be started."""
        with self.lock:
            self._refuse_when_closed()
            accumulator = self._accumulators.get(record.topic)
            fresh = accumulator is None
            if accumulator is None:
                first = self.next_sequences.get(record.topic, 0)
                # Two lives under one name count from the same number on: an epoch, or a name drawn
                # anew, keeps the ids of one from being taken for copies of the other's.
                life = str(self.epoch) if self.epoch is not None else self._run
                accumulator = RecordAccumulator(
                    record.topic, self.producer_id, self._limits, first, life
                )
                self._accumulators[record.topic] = accumulator
            self.ledger.open(record)
            wake = accumulator.add(record, self._now())
        if wake:
            self._notify()
        return accumulator if fresh else None

    def flush(self, on: bool) -> None:
        """While on, nothing lingers."""
        with self.lock:
            for accumulator in self._accumulators.values():
                accumulator.flushing = on
        self._notify()

    def close(self) -> None:
        """No more sends; scripts end when their record accumulator is empty."""
        with self.lock:
            self.closed = True
            for accumulator in self._accumulators.values():
                accumulator.closed = True
        self._notify()

    def abort(self) -> None:
        """Stop retrying: what is not acknowledged is given up."""
        self.aborted = True
        self._notify()

    def take_first_error(self) -> LakequeueError | None:
        """The first record given up since the last call."""
        with self.lock:
            error, self.ledger.first_error = self.ledger.first_error, None
            return error

    def _refuse_when_closed(self) -> None:
        forks.check_process(self.made_in)
        if self.closed:
            raise NotReady("the producer is closed", hint="make a new one", stored="no")
        if self.fenced is not None:
            raise self.fenced

    def begin(self) -> Script[None]:
        """Take the next epoch: no older instance of this producer gets anything in from now on."""
        if not self.fence:
            raise InvalidRequest(
                "the producer is not fenceable", hint="Producer(producer_id=…, fence=True)"
            )
        path = f"/v1/producers/{self.producer_id}/epochs"
        request = Request("POST", path, {"timeout_ms": _ORDER_TIMEOUT_MS})
        policy = CallPolicy(self._delivery_timeout_s, give_up=lambda: self.aborted)
        yield from find(self.nodes, "ingest", self._now)
        answer = yield from call(self.nodes, request, self._now, policy)
        begun = read_answer(EpochAnswer, answer.reply)
        with self.lock:
            self.epoch, self.next_sequences = begun.epoch, begun.next_sequences
        self.saw(begun.stamp)

    def saw(self, stamp: int) -> None:
        """Something of ours was stamped so. Later requests carry the highest such stamp."""
        # Each topic has a thread of its own: without the lock a lower one could be left behind, and
        # the next request of the other topic be stamped below what it has to follow.
        with self.lock:
            self.last_stamp = max(stamp, self.last_stamp or 0)

    # -- the sender's side ----------------------------------------------------------------------

    def deliver(self, accumulator: RecordAccumulator) -> Script[None]:
        """Send the batches of one topic, one at a time, until it is closed and empty."""
        while True:
            with self.lock:
                due_in = accumulator.due_in(self._now())
                if due_in is None and accumulator.closed:
                    return
                batch = accumulator.take() if due_in == 0.0 else None
            if batch is None and due_in is None:
                # Any record is a reason to look: it may linger, and nobody notifies when that is
                # over.
                yield Wait(lambda: accumulator.has_records or accumulator.closed, None)
            elif batch is None:
                yield Wait(lambda: accumulator.ready(self._now()), due_in)
            else:
                yield from self._settle(batch)

    def _settle(self, batch: ProducerBatch) -> Script[None]:
        """Get every record of `batch` acknowledged or given up, in order within a partition."""
        # A fenceable producer counts over all partitions, so its topic has one node.
        parts = yield from self._routing.parts(batch, whole=self.fence)
        if len(parts) == 1:
            yield from self._settle_part(parts[0])
        else:
            yield Together([self._settle_part(part) for part in parts])

    def _settle_part(self, batch: ProducerBatch) -> Script[None]:
        """The same for what goes to one node.

        A request is refused as a whole for one bad record: that one is given up, and the others
        are sent without it, under the message ids that they have.
        """
        todo = deque([batch])
        while todo:
            part = todo.popleft()
            try:
                yield from self._send(part)
            except ProducerFenced as error:
                self.fenced = self.fenced or error
                for lost in (part, *todo):
                    self._finish(lost.records, error)
                return
            except LakequeueError as error:
                index = index_at_fault(error, part)
                if index is not None and was_chosen(error, part.records[index]):
                    # The topic was made anew with fewer partitions: no fault of the record.
                    self._routing.choose_no_more(part)
                    todo.appendleft(part)
                elif index is not None:
                    bad = part.records[index]
                    self._finish([bad], about_record(error, index, bad))
                    todo.extendleft(reversed(part.without(index)))
                elif isinstance(error, TooLarge) and len(part.records) > 1:
                    todo.extendleft(reversed(part.halves()))
                else:
                    self._finish(part.records, error)

    def _send(self, batch: ProducerBatch) -> Script[None]:
        if self.fenced is not None:
            raise self.fenced
        waited = self._now() - batch.opened_at
        policy = CallPolicy(
            max(self._delivery_timeout_s - waited, 0.0), give_up=lambda: self.aborted
        )
        route = self.nodes.route(batch.route or batch.topic)
        with sending(batch.records, self.producer_id) as span:
            request = self._request(batch, span)
            try:
                answer = yield from call(route, request, self._now, policy)
            except UnsupportedMediaType:
                # Another topic may have learnt it meanwhile.
                if request.content_type != ARROW_STREAM:
                    raise
                self._columns = False
                answer = yield from call(route, self._request(batch, span), self._now, policy)
        produced = read_produced(answer.reply, len(batch.records))
        self.saw(produced.stamp)
        self._routing.compare(batch, produced)
        self._answered(batch, produced)

    def _request(self, batch: ProducerBatch, span: Tracing) -> Request:
        ordered = self._acks == "ordered" or self.epoch is not None
        wait: dict[str, str | int] = (
            {"wait": "ordered", "timeout_ms": _ORDER_TIMEOUT_MS} if ordered else {}
        )
        body = batch.body(self.producer_id, self.last_stamp, self.epoch, columns=self._columns)
        return Request(
            "POST",
            f"/v1/topics/{batch.topic}/records",
            {**wait, **body.params},
            body.data,
            body.content_type,
            headers={PREFER: MINIMAL, **span.request_headers()},
        )

    def _answered(self, batch: ProducerBatch, produced: Produced) -> None:
        settled, places = batch.records, produced.places
        if not produced.is_plain:
            for record, place in zip(settled, places, strict=True):
                if reason_of(place) is not None:
                    self._finish([record], not_ordered(batch.topic, place))
            kept = [i for i, place in enumerate(places) if reason_of(place) is None]
            settled, places = [settled[i] for i in kept], [places[i] for i in kept]
        if settled:
            self._acknowledge(settled, Answered(batch.topic, produced.stamp), places)

    def produce_whole(
        self, records: Sequence[Outgoing], consumed: Consumed | None
    ) -> Script[list[RecordMetadata]]:
        """Send `records`, which name their topics, in one request, and wait until it is ordered:
        all or none.

        With `consumed` they count together with it. Raises `ConsumedElsewhere` when it does not,
        `ProducerFenced`, `NotOrdered`.
        """
        if self.fenced is not None:
            raise self.fenced
        body = whole_body(records, self.producer_id, self.last_stamp, self.epoch, consumed)
        policy = CallPolicy(self._delivery_timeout_s)
        yield from find(self.nodes, "ingest", self._now)
        # A round of which nothing comes out counts as well, and has no topic to go by.
        route = self.nodes.route(records[0].topic if records else self.producer_id)
        try:
            with sending(records, self.producer_id) as span:
                request = Request(
                    "POST",
                    "/v1/records",
                    {"wait": "ordered", "timeout_ms": _ORDER_TIMEOUT_MS},
                    body,
                    headers=span.request_headers(),
                )
                answer = yield from call(route, request, self._now, policy)
        except ProducerFenced as error:
            self.fenced = error
            raise
        produced = read_produced(answer.reply, len(records))
        self.saw(produced.stamp)
        delivered: list[RecordMetadata] = []
        for record, place in zip(records, produced.places, strict=True):
            if reason_of(place) is not None:
                raise not_ordered(record.topic, place)
            answered = Answered(record.topic, produced.stamp)
            delivered.append(answered.metadata(place, record.message_id))
        return delivered

    # -- the end of a record --------------------------------------------------------------------

    def _acknowledge(
        self, records: Sequence[Outgoing], batch: Answered, places: Sequence[Place]
    ) -> None:
        with self.lock:
            self.ledger.settle(records, None)
        with self._accumulators[batch.topic].telling:
            told = [] if self._on_ack is None else [record.copy() for record in records]
            acknowledge(records, batch, places)
            for record, place in zip(told, places, strict=False):
                tell(self._on_ack, record, batch.metadata(place, record.message_id))
        self._notify()

    def give_up_rest(self, error: LakequeueError) -> None:
        """Nobody sends any more."""
        for record in self.ledger.on_their_way:
            self._finish([record], error)

    def _finish(self, records: Sequence[Outgoing], error: LakequeueError) -> None:
        """They are given up."""
        with self.lock:
            self.ledger.settle(records, error)
        with self._accumulators[records[0].topic].telling:
            give_up(records, error)
            for record in records if self._on_error is not None else ():
                tell(self._on_error, record, error)
        self._notify()
