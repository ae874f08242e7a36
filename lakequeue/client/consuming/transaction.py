"""Exactly-once effects in a Delta table: the result and how far it goes, in one commit of delta-rs.

Each commit carries the `txn` `lakequeue/<group>/<topic_id>/<partition>` = next offset (the mark,
`lakequeue/results/declared.py`). That mark in
the result table is the start position, whatever the group has committed: it must equal the first
offset of what is written, on the very handle that commits, and delta-rs refuses a commit from a
handle that has not seen another's of the same app id. So of two consumers of the same records one
writes, and after a crash at any point nothing is written twice and nothing is left out. A `RESTORE`
of the table takes the mark back with the rows (`lakequeue/results/mark.py`).

Needs `pip install 'lakequeue[delta]'`. Merges, deletes and overwrites work as appends do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError

from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.client.consuming.rounds import (
    AsyncTakes,
    Blocking,
    Call,
    Round,
    Takes,
    run_round,
    run_round_async,
)
from lakequeue.client.message import Message
from lakequeue.errors import InvalidRequest, ResultBehind
from lakequeue.results.declared import (
    app_id,
    group_app_id,
    partition_mark,
    written_by_other,
)
from lakequeue.results.mark import marks, read_mark, resume
from lakequeue.results.restores import Restores
from lakequeue.steps import Step, reach

T = TypeVar("T")
_log = logging.getLogger("lakequeue.client.consuming.transaction")


ResultTable = deltalake.DeltaTable | str
"""A handle, or where the table is."""


class Failure(NamedTuple):
    """A round whose result is not in the table."""

    error: BaseException
    done: int | None
    """How far the table is; None: not known, or it has nothing of this group."""


class Writing:
    """One round: the next records of one partition, and one commit to the result table.

    Within the block either `append` rows, or run one operation of your own on `table` with
    `commit_properties` (a merge, say); the end of the block commits and checks. With neither, only
    the position is committed. If it raises, the consumer joins its group again and goes on where
    the table ends.
    """

    def __init__(
        self,
        consumer: Takes | AsyncTakes,
        table: ResultTable,
        timeout_s: float,
        max_records: int,
        skip_gap: bool,
    ) -> None:
        self._consumer = consumer
        self._timeout_s = timeout_s
        self._max_records = max_records
        self.table = deltalake.DeltaTable(table) if isinstance(table, str) else table
        """The handle that commits."""
        self._skip_gap = skip_gap
        self._all_restores = consumer.restores
        self._span: OffsetRange | None = None
        self._app_id = ""
        self._from = 0
        self._found: int | None = None
        """How far the table was, when the records were taken."""
        self._rows: list[Any] = []
        self._handed_out = False
        self._version = -1
        """Of the handle, when the records were taken."""
        self.counted = False
        """The result of these records is in the table. False after the block: another consumer has
        written them, or there were none."""

    @property
    def messages(self) -> list[Message]:
        """The records whose result is to be written; none came in time if it is empty. They are
        acknowledged by the end of the block."""
        if self._span is None:
            return []
        return [m for m in self._span.messages if m.offset >= self._from]

    def append(self, rows: Any) -> None:
        """Rows for the result table: an Arrow table, or anything that Arrow makes one of."""
        if self._handed_out:
            raise self._both()
        self._rows.append(rows)

    @property
    def commit_properties(self) -> deltalake.CommitProperties:
        """For the one operation of your own that writes the result: it carries the position."""
        if self._rows:
            raise self._both()
        self._handed_out = True
        return self._properties()

    @staticmethod
    def _both() -> InvalidRequest:
        # They would be two commits, and only one of them can carry the position.
        return InvalidRequest(
            "append and commit_properties are both used in one round",
            hint="append the rows, or write all of them by an operation of your own",
        )

    def _properties(self) -> deltalake.CommitProperties:
        span = self._span
        if span is None:
            raise InvalidRequest("there are no records in this round", hint="look at .messages")
        ours = marks(self._app_id, span.next_offset, self.table.version())
        told = partition_mark(span.group, span.topic_id, span.partition, span.next_offset)
        return deltalake.CommitProperties(
            custom_metadata={"userMetadata": told}, app_transactions=ours
        )

    # -- the round, whoever runs it ---------------------------------------------------------------

    def _begun(self) -> Round[None]:
        deadline = time.monotonic() + self._timeout_s
        while True:
            left = max(0.0, deadline - time.monotonic())
            span = yield partial(self._consumer.take, left, self._max_records)
            if span is None:
                return
            try:
                wanted = yield Blocking(partial(self._look, span))
            except BaseException as error:
                yield self._rejoin(error)
                raise
            if wanted:
                self._taken(span)
                return
            # All of it is written: the last round had no time to say so.
            span.messages[-1].ack(commit_through=True)

    def _ended(self, error: BaseException | None) -> Round[bool]:
        """Whether an error of the block is dealt with."""
        span = self._span
        if span is None:
            return False
        ours = self._is_ours(error)
        if error is not None and not ours:
            yield self._rejoin(error)
            return False
        try:
            failure = yield Blocking(partial(self._write, span, error))
        except asyncio.CancelledError:
            # It may be written: then the table says so when the records come again.
            yield partial(self._consumer.rejoin, "a transaction was cancelled")
            raise
        if failure is not None:
            yield self._rejoin(failure.error)
            self._raise_unless_outrun(span, failure)
            return True
        self._written(span)
        return ours

    def _rejoin(self, error: BaseException) -> Call:
        return partial(self._consumer.rejoin, f"a transaction failed: {error!r}")

    # -- the protocol: what asks the table may run in a thread, the rest does not wait ------------

    def _look(self, span: OffsetRange) -> bool:
        """Whether something of it is to be written. Raises `ResultBehind`."""
        self._app_id = app_id(span.group, span.topic_id, span.partition)
        self._found = done = self._done()
        by_spark = self.table.transaction_version(group_app_id(span.group))
        if done is None and by_spark is not None:
            raise written_by_other(span.group, "DeltaSink")
        found = resume(done, span.from_offset, span.next_offset)
        if found.gap and not self._skip_gap:
            raise self._behind(span, done)
        self._from = found.from_offset
        self._version = self.table.version()
        return found.from_offset < span.next_offset

    def _behind(self, span: OffsetRange, done: int | None) -> ResultBehind:
        begin = self._from or span.from_offset
        return ResultBehind(
            f"the table has {span.topic}/{span.partition} up to offset {done or 0}, and "
            f"group {span.group} goes on at {begin}",
            hint=f"seek the group to {done or 0}, or leave the {begin - (done or 0)} out: "
            "skip_gap=True",
            done=done or 0,
            from_offset=begin,
        )

    def _taken(self, span: OffsetRange) -> None:
        self._span = span
        reach(Step.EFFECT_TAKEN)

    def _is_ours(self, error: BaseException | None) -> bool:
        """The block's own operation has failed: the table says what became of it."""
        return self._handed_out and isinstance(error, DeltaError)

    def _write(self, span: OffsetRange, error: BaseException | None) -> Failure | None:
        """Commit, unless an operation has failed with `error`; None when the table has it."""
        try:
            if error is not None:
                raise error
            self._commit(span, self._from)
        except BaseException as failed:  # noqa: BLE001 - handed on, or the outcome is another
            # The outcome is what the table says, whatever the error.
            try:
                done = self._done()
            except Exception:  # noqa: BLE001 - it says nothing now; the first error tells more
                done = None
            if done != span.next_offset:
                return Failure(failed, done)
        return None

    def _raise_unless_outrun(self, span: OffsetRange, failure: Failure) -> None:
        error, done = failure
        if isinstance(error, DeltaError) and self._is_restored(done):
            raise self._behind(span, done) from error
        if done is None or done <= self._from or not isinstance(error, DeltaError):
            raise error
        _log.info("%s is at %s: another consumer has written", self._app_id, done)

    def _written(self, span: OffsetRange) -> None:
        self.counted = True
        reach(Step.EFFECT_COMMITTED)
        span.messages[-1].ack(commit_through=True)
        reach(Step.EFFECT_ACKED)

    def _commit(self, span: OffsetRange, before: int) -> None:
        # An operation that finds nothing to change (a merge of what is there already) commits
        # nothing, and no position: then only that is to be written.
        committed = self.table.version() != self._version
        # From one handle and without a refresh in between: look, then commit.
        done = self._done()
        if self._handed_out and (committed or done == span.next_offset):
            if done != span.next_offset:
                raise InvalidRequest(
                    f"{self._app_id} is at {done} after the block, not at {span.next_offset}",
                    hint="run the operation with commit_properties=tx.commit_properties",
                )
            return
        if done is not None and done > before:
            raise DeltaError(f"{self._app_id} is at {done}, not at {before}")
        if self._is_restored(done):
            raise self._behind(span, done)
        if self._rows:
            deltalake.write_deltalake(
                self.table, _joined(self._rows), mode="append", commit_properties=self._properties()
            )
        else:
            self.table.create_write_transaction(
                [], "append", self.table.schema(), commit_properties=self._properties()
            )

    def _is_restored(self, done: int | None) -> bool:
        """Whether the table has gone back since the records were taken."""
        found = self._found
        return not self._skip_gap and done is not None and found is not None and done < found

    def _done(self) -> int | None:
        self.table.update_incremental()
        # Another table may stand at the place of one that was deleted.
        place = f"{self.table.table_uri}#{self.table.metadata().id}"
        restores = self._all_restores.setdefault(place, Restores())
        return read_mark(self.table, self._app_id, restores)


class Transaction(Writing):
    """A round in a `with` block."""

    def __enter__(self) -> Self:
        run_round(self._begun())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        return run_round(self._ended(error))


class AsyncTransaction(Writing):
    """The same in an `async with` block; the table is asked, and committed to, in a thread."""

    async def __aenter__(self) -> Self:
        await run_round_async(self._begun())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        return await run_round_async(self._ended(error))


def _joined(rows: list[Any]) -> Any:
    if len(rows) == 1:
        return rows[0]
    tables = [r if isinstance(r, pa.Table) else pa.table(r) for r in rows]
    # A part without rows may not know its types.
    return pa.concat_tables(tables, promote_options="default")
