"""`Consumer`: the shell around `Consuming` for threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack

from lakequeue.calling import blocking_runner, forks
from lakequeue.calling.closing import Closes
from lakequeue.calling.effects import Script
from lakequeue.client.consuming.consumer_base import ConsumerBase, ConsumerOptions, delta_module
from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.client.consuming.transform import Transform
from lakequeue.client.message import Message
from lakequeue.client.messages import Messages
from lakequeue.client.producing.producer import Producer
from lakequeue.option_help import options_in_help

if TYPE_CHECKING:
    from lakequeue.client.consuming.transaction import ResultTable, Transaction

T = TypeVar("T")


@options_in_help(ConsumerOptions)
class Consumer(ConsumerBase, Closes):
    """Receives records of one or more topics as a member of `group`.

    A consumer joins its group when it is first used. Iterating it waits for ever; `poll` waits
    for a given time. One thread iterates; any thread may call `ack`, `commit` and `stop`. It is a
    context manager: the end of `with` closes it.

    Args:
        topics: One topic or several.
        group: Name of the group. Its members share the work.
        **options: The options of `ConsumerOptions`.

    Raises:
        InvalidRequest: An option is not valid.

    Example:
        from lakequeue import Consumer

        with Consumer("orders", group="billing", from_="earliest") as consumer:
            for message in consumer.poll(timeout_s=5.0):
                print(message.key, message.value)
                message.ack()
            consumer.commit()
    """

    def __init__(
        self, topics: str | Sequence[str], group: str, **options: Unpack[ConsumerOptions]
    ) -> None:
        self._signal: blocking_runner.Signal | None = None
        super().__init__(topics, group, options)
        self._signal = blocking_runner.Signal(self._core.lock)
        self._http = blocking_runner.open_http(
            self._headers, self._core.nodes.urls, options.get("credentials")
        )
        self._fetcher: threading.Thread | None = None
        self._reconciler: threading.Thread | None = None
        self._closed = False

    def _notify(self) -> None:
        if self._signal is not None:
            self._signal.notify()

    def _start(self) -> None:
        forks.check_process(self._core.made_in)
        if self._fetcher is None:
            self._fetcher = self._thread("fetch")
            self._reconciler = self._thread("keep")

    def _run(self, script: Script[T]) -> T:
        assert self._signal is not None  # noqa: S101 - set in __init__
        return blocking_runner.run(script, self._http, self._signal)

    def _thread(self, name: Literal["fetch", "keep"]) -> threading.Thread:
        script = self._core.fetch() if name == "fetch" else self._core.keep()
        thread = threading.Thread(
            target=blocking_runner.run,
            args=(script, self._http, self._signal),
            name=f"lakequeue-{name}-{self.group}",
            daemon=True,
        )
        thread.start()
        return thread

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        self._core.iterates = self._core.is_worker
        self._start()
        message = self._core.next()
        if message is None:
            message = self._run(self._waited())
        if message is None:
            raise StopIteration
        return self._typed(message)

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> Messages:
        """Wait for records, and return those that are there.

        Args:
            timeout_s: How long to wait for the first record.
            max_records: How many records to return at most.

        Returns:
            The records: a list, with `to_arrow()` and `to_pandas()`. It is empty if none came in
            time, or after `stop`.

        Raises:
            UndecodableRecord: The group has `undecodable="stop"`, and such a record is next.
            LakequeueError: The first join failed, or the group does not let this consumer in.
        """
        self._start()
        return self._run(self._polled(timeout_s, max_records))

    def take(self, timeout_s: float = 1.0, max_records: int = 500) -> OffsetRange | None:
        """Take the next records of one partition, for a result that has their positions.

        Args:
            timeout_s: How long to wait for the first record.
            max_records: How many records to take at most.

        Returns:
            The records and their range of offsets; None if none came in time.

        Raises:
            InvalidRequest: The group has a predicate. What it skips leaves gaps, and a range that
                counts with its result must have none.
        """
        self._core.go_gapless()
        self._start()
        return self._run(self._range_taken(timeout_s, max_records))

    def transform(
        self,
        producer: Producer,
        to: str | None = None,
        *,
        timeout_s: float = 1.0,
        max_records: int = 500,
    ) -> Transform:
        """One round of consume, transform, produce: exactly once.

        It takes the next records of one partition. What you send in the block becomes visible
        together with the position, or neither does.

        Args:
            producer: Sends the results.
            to: Default topic of the results.
            timeout_s: How long to wait for the first record.
            max_records: How many records to take at most.

        Returns:
            A context manager with `messages` and `send`.

        Raises:
            InvalidRequest: The group has a predicate.
            ConsumedElsewhere: At the end of the block: another consumer has consumed the records.
        """
        return Transform(self, producer, to, self.take(timeout_s, max_records))

    def transaction(
        self,
        table: ResultTable,
        *,
        timeout_s: float = 1.0,
        max_records: int = 500,
        skip_gap: bool = False,
    ) -> Transaction:
        """One round of exactly-once results in a Delta table.

        It takes the next records of one partition that are not in the table's result yet.

        Args:
            table: A `deltalake.DeltaTable`, or its path.
            timeout_s: How long to wait for the first record.
            max_records: How many records to take at most.
            skip_gap: Go on if records between the table's position and the first one are gone.

        Returns:
            A context manager with `messages`, `append` and `commit_properties`.

        Raises:
            MissingDependency: The extra `lakequeue[delta]` is not installed.
            ResultBehind: Records that the table does not have yet are gone.
        """
        made: Transaction = delta_module().Transaction(
            self, table, timeout_s, max_records, skip_gap
        )
        return made

    def rejoin(self, reason: str) -> None:
        """Leave the group and join it again. Unacknowledged records are delivered again.

        Args:
            reason: Stands in `Lost`, and in the status line.
        """
        if self._fetcher is not None and not self._closed:
            self._run(self._rejoined(reason))

    def commit(self, timeout_s: float = 30.0) -> None:
        """Wait until every acknowledgement made so far is durable.

        Args:
            timeout_s: How long to wait.

        Raises:
            EpochSuperseded: One of them was refused, because its partition has a newer owner.
            AttemptSuperseded: Queue groups: another worker has one of the records.
            CoordinationUnavailable: There was no answer in time.
        """
        self._start()
        self._warn_of_no_acks()
        self._run(self._committed(timeout_s))

    def close(self) -> None:
        """Send the acknowledgements, leave the group, and stop.

        Acknowledgements that come too late are logged, not raised; their records are delivered
        again. To be sure, call `commit` first.
        """
        if self._closed or forks.is_parents(self._core.made_in):
            return  # what a forked child has of it is its parent's
        self._closed = True
        self._core.stop()
        try:
            if self._fetcher is not None:
                self._run(self._last_acks_sent())
        finally:
            self._core.end()
            self._run(self._core.leave())
            # A poll that is still parked is abandoned: its thread ends with its answer.
            for thread in (self._reconciler, self._fetcher):
                if thread is not None and thread is not threading.current_thread():
                    thread.join(timeout=0.5)
            self._http.close()
