"""Consume, transform, produce: the output of records counts together with having consumed them.

One request carries the output and the offsets it was made from, and the order job takes it whole or
drops it (`docs/protocols/order.md`), so neither a crash nor a second consumer of the same records
leaves a copy or a gap, without any window.
"""

from __future__ import annotations

import logging
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.client.consuming.rounds import (
    AsyncTakes,
    Round,
    Takes,
    run_round,
    run_round_async,
)
from lakequeue.client.message import Message
from lakequeue.client.producing.atomic import Collected
from lakequeue.client.producing.outgoing import RecordMetadata
from lakequeue.client.producing.record_options import RecordOptions
from lakequeue.errors import ConsumedElsewhere, InvalidRequest
from lakequeue.steps import Step, reach

if TYPE_CHECKING:
    from lakequeue.client.producing.producer import AsyncProducer, Producer

_log = logging.getLogger("lakequeue.transform")


class TransformRound:
    """The next records of one partition, and what is sent for them."""

    def __init__(
        self,
        consumer: Takes | AsyncTakes,
        producer: Producer | AsyncProducer,
        to: str | None,
        span: OffsetRange | None,
    ) -> None:
        self._consumer = consumer
        self._producer = producer
        self._to = to
        self._span = span
        # Ids of this round alone: another round that says the same must not be taken for this.
        self._output = Collected(producer)
        self.delivered: list[RecordMetadata] = []
        """Where the output went, once the block has ended."""
        self.counted = False
        """It counts. False after the block: others have consumed these records meanwhile (their
        output counts), or there were none."""

    @property
    def messages(self) -> list[Message]:
        """The records to transform; none came in time if it is empty. They are acknowledged by
        the end of the block."""
        return [] if self._span is None else self._span.messages

    def end_at(self, offset: int) -> None:
        """Only records below `offset` belong to this round; the others stay unconsumed."""
        if self._span is not None:
            self._span = self._span.below(offset)

    def send(
        self,
        value: Any,
        key: Any = None,
        *,
        topic: str | None = None,
        **options: Unpack[RecordOptions],
    ) -> None:
        """Add a record to the output, as `Producer.send` does; it leaves when the block ends.

        It goes to `topic`, by default the one the round was made for.
        """
        to = topic or self._to
        if to is None:
            raise InvalidRequest(
                "no topic is named", hint="transform(producer, to=…), or send(…, topic=…)"
            )
        self._output.send(to, value, key, **options)

    def _taken(self) -> None:
        if self._span is not None:
            reach(Step.TRANSFORM_TAKEN)

    def _ended(self, error: BaseException | None) -> Round[None]:
        """How the block ends, whoever runs it."""
        span = self._span
        if span is None:
            return
        if error is not None:
            # What was handed out must come again: the position is that of the last round.
            yield partial(self._consumer.rejoin, f"a transform failed: {error!r}")
            return
        records = self._output.records
        try:
            self.delivered = yield partial(self._producer.produce_whole, records, span.consumed)
            self.counted = True
        except BaseException as failed:
            reason = self._rejoin_after(span, failed)
            if reason is not None:
                yield partial(self._consumer.rejoin, reason)
                if self._counts_elsewhere(span, failed):
                    return
                raise
        self._mirror(span)

    def _rejoin_after(self, span: OffsetRange, error: BaseException) -> str | None:
        """Producing has failed: why the consumer is to join again; None: the round is done with."""
        if not isinstance(error, ConsumedElsewhere):
            return f"a transform failed: {error!r}"
        current = error.extra.get("current")
        if current is not None and current < span.from_offset:
            # Only acknowledgements go past the mark: joining again would come to the same.
            error.hint = (
                f"offsets {current} to {span.from_offset - 1} were acknowledged without "
                f"being transformed; seek the group, to {current} or to where it is"
            )
            return error.detail
        # Consumed exactly as far, by this request sent before or by another consumer: go on.
        if current == span.next_offset:
            return None
        _log.info("%s", error.detail)
        return error.detail

    @staticmethod
    def _counts_elsewhere(span: OffsetRange, error: BaseException) -> bool:
        """Others have consumed these records, and their output counts: no fault of this round."""
        if not isinstance(error, ConsumedElsewhere):
            return False
        current = error.extra.get("current")
        return current is None or current >= span.from_offset

    @staticmethod
    def _mirror(span: OffsetRange) -> None:
        """Acknowledge in the group, so that its lag is true and it counts as busy."""
        reach(Step.TRANSFORM_COUNTED)
        span.messages[-1].ack(commit_through=True)
        reach(Step.TRANSFORM_ACKED)


class Transform(TransformRound):
    """One round of consume, transform, produce.

    The end of the `with` block waits until both count. If it raises, nothing has counted, or it is
    not known; in both cases the consumer joins its group again and goes on at the right place.
    """

    def __init__(
        self, consumer: Takes, producer: Producer, to: str | None, span: OffsetRange | None
    ) -> None:
        super().__init__(consumer, producer, to, span)

    def __enter__(self) -> Self:
        self._taken()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        run_round(self._ended(error))


class AsyncTransform(TransformRound):
    """The same in an `async with` block, which takes the records when it begins."""

    def __init__(
        self,
        consumer: AsyncTakes,
        producer: AsyncProducer,
        to: str | None,
        timeout_s: float,
        max_records: int,
    ) -> None:
        super().__init__(consumer, producer, to, None)
        self._take = partial(consumer.take, timeout_s, max_records)

    async def __aenter__(self) -> Self:
        self._span = await self._take()
        self._taken()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await run_round_async(self._ended(error))
