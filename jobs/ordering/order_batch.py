"""One batch of the order job, from projected rows to one commit of rows and watermarks.

The steps, their durable effects and who repairs what: `docs/protocols/order.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pyarrow as pa
import structlog

from jobs.ordering.batch_accumulator import BatchAccumulator, Done
from jobs.ordering.dividing import Divisible, cuts_of
from jobs.ordering.file_faults import (
    BlockedShard,
    is_there,
    settled_files,
    split_off_missing,
    with_verdicts,
)
from jobs.ordering.id_index import Staged
from jobs.ordering.log_plan import by_file, log_plan
from jobs.ordering.numbering import Ordered, order
from jobs.ordering.order_piece import Cuts, Piece, prepared, try_control, writing_trial
from jobs.ordering.order_state import OrderState, order_number
from jobs.ordering.reject_rows import RejectRows
from jobs.ordering.rejects import RejectsTable, fenced_commit
from jobs.ordering.unpassed import Unpassed, reaches
from jobs.rows.projected_rows import SENT, ProjectedBatch, above, unfold
from jobs.rows.traces import traces_of
from lakequeue.clock import WallClock, wall_micros
from lakequeue.errors import LeadershipLost
from lakequeue.records import (
    Epoch,
    ShardName,
    Stamp,
    Version,
)
from lakequeue.steps import Step, reach
from lakequeue.tracing.spans import MOST_LINKS
from queue_tables.delta.actions import Add, Txn
from queue_tables.log.writer import SourceFiles, render_log_files, write_log_files
from queue_tables.schema.marks import ORDER_TXN

log = structlog.get_logger("order")

_FILE_BYTES = 4 << 20
"""A batch becomes several files, written at once, if each of them has this many record bytes."""

WriteFiles = Callable[[str, pa.Table], list[Add]]
"""(root URI, plan) -> the files, durable."""


ReadPart = Callable[[], tuple[pa.Table, SourceFiles | None]]
"""-> rows (`SENT`), and the inbox files that were read with them"""
Told = Callable[[Done], object]
"""Is told of a batch that is committed, if it is not the last one"""
CommitBatch = Callable[[Told], Done | None]
"""Commits what was prepared; None: there is nothing"""
ChooseWriter = Callable[[pa.Table], WriteFiles | None]
"""(projected rows) -> what writes their log files; None: this process"""


class OrderTerm:
    """One leader's term. Used by one thread at a time."""

    def __init__(
        self, state: OrderState, epoch: Epoch, wall: WallClock = wall_micros, files: int = 2
    ) -> None:
        """`files`: as many as a large batch is written to at most."""
        self.epoch = epoch
        self._state = state
        self._files = files
        self._rejects = RejectsTable(state.root)
        self._wall = wall
        self._counter = 0
        self._turn = 0
        """Rises with each batch that is prepared, and each that is committed."""
        self._plan: dict[ShardName, Stamp] | None = None
        self._unpassed = Unpassed(self._rejects)
        self._blocked: dict[ShardName, BlockedShard] = {}
        self._suspects: set[str] = set()
        self._pool = ThreadPoolExecutor(files, thread_name_prefix="log-writer")

    def begin(self) -> dict[ShardName, Stamp] | None:
        """Put the epoch into `log` and `rejects`, with no rows, before anything else.

        From the return on no older leader can commit. Returns the cut that the first batch must
        have, if an older leader has left a batch half done. Raises `LeadershipLost` when this
        epoch or a higher one stands there already.
        """
        state = self._state
        state.catch_up()
        info = {"epoch": self.epoch, "counter": 0, "rows": 0}
        number = order_number(self.epoch, 0)
        met = fenced_commit(state.log, [Txn(ORDER_TXN, number)], info, self.epoch, begins=True)
        state.learn(met)
        reach(Step.ORDER_EPOCH_COMMITTED)
        self._rejects.refresh()
        self._rejects.begin(self.epoch)
        self._plan = self._rejects.unfinished(state.watermarks())
        self._unpassed.begin(self._plan or {}, state.watermarks())
        return self._plan

    def process(
        self, sent: pa.Table, sources: SourceFiles | None = None, write: WriteFiles | None = None
    ) -> Done | None:
        """Order the rows (`SENT`) of a cut; None if all of them were ordered before.

        `sources` has inbox files that were read already; `write` writes the log files elsewhere.
        Raises `LeadershipLost` when a newer leader has committed: then nothing was.
        """
        return self.process_parts([lambda: (sent, sources)], lambda _rows: write)

    def process_parts(
        self, parts: Sequence[ReadPart], write: ChooseWriter, told: Told = lambda _: None
    ) -> Done | None:
        """The same for a cut whose rows are read in `parts`, in cut order: one is held at a time.

        What is written of a part nobody sees: when the last one is written, rejects of all are
        committed, then one commit brings everything. Whatever rows can fail at comes before both.

        A cut of one part that fails for what is in it becomes several batches: whatever does not
        fail is committed, and `told`, before rows are searched. The last one is returned.
        """
        return self.prepare(parts, write)(told)

    def prepare(self, parts: Sequence[ReadPart], write: ChooseWriter) -> CommitBatch:
        """All of `process_parts` that comes before its first commit; what is returned does the
        rest, or all of it anew if another batch came in between. If it is dropped, files are left
        that no commit names.
        """
        turn = self._turn = self._turn + 1
        commit = self._prepared(parts, write)

        def in_turn(told: Told) -> Done | None:
            if self._turn != turn:
                return self.process_parts(parts, write, told)
            self._turn += 1
            return commit(told)

        return in_turn

    def _prepared(self, parts: Sequence[ReadPart], write: ChooseWriter) -> CommitBatch:
        if len(parts) > 1 or self._plan is not None:
            accumulator = self._pieces(parts, write)
        else:
            store = self._state.root.store
            try:
                accumulator = self._pieces(parts, write, lambda rows: cuts_of(rows, store))
            except Divisible as failed:
                return partial(self._in_turn, failed)
        return lambda _told: self._committed(accumulator)

    def _in_turn(self, failed: Divisible, told: Told) -> Done | None:
        """Its parts, each as a batch of its own, in cut order."""
        done: Done | None = None
        for rows in failed.slices():
            if done is not None:
                told(done)
            part = partial(_read_before, rows, failed.sources)
            done = self._committed(self._pieces([part], lambda _rows: None))
        return done

    def _pieces(
        self, parts: Sequence[ReadPart], write: ChooseWriter, cuts: Cuts | None = None
    ) -> BatchAccumulator | None:
        """All parts, numbered and written; None if there is nothing to commit."""
        state = self._state
        accumulator = BatchAccumulator(Staged(state.index), self._wall())
        blocked_before = set(self._blocked)
        for number, read in enumerate(parts, start=1):
            piece = self._piece(accumulator, read, write, cuts, last=number == len(parts))
            if piece is not None:
                accumulator.take(piece, self._stored(piece, cuts))
            if number < len(parts):
                del piece
                # Else the pool keeps what it had, and the next piece may fit none of it.
                pa.default_memory_pool().release_unused()
            if len(parts) > 1 and self._blocked.keys() - blocked_before:
                return None  # it is one commit: it comes as a whole, or waits as a whole
        if not accumulator.rows:
            return None
        reach(Step.ORDER_DATA_WRITTEN)
        return accumulator

    def _committed(self, accumulator: BatchAccumulator | None) -> Done | None:
        if accumulator is None:
            return None
        state = self._state
        began = time.perf_counter()
        self._commit_rejects(accumulator)
        self._commit(accumulator)
        reach(Step.ORDER_COMMITTED)
        self._unpassed.passed(accumulator.watermarks)
        accumulator.ids.settle()
        return accumulator.done(state.log.version, time.perf_counter() - began)

    @property
    def plan(self) -> dict[ShardName, Stamp] | None:
        """The cut that the next batch must have, if an older leader left one half done."""
        return self._plan

    @property
    def rejects_version(self) -> Version:
        """The newest version of `rejects` that this term has seen."""
        return self._rejects.version

    @property
    def refused(self) -> str | None:
        """Why storage takes no file of `rejects` now, for which all waits; None: it does."""
        return self._rejects.refused

    def stop(self) -> None:
        """Wait for nothing any longer: the process ends."""
        self._rejects.stop()

    @property
    def blocked(self) -> Mapping[ShardName, BlockedShard]:
        """Shards that wait at a commit of which a file is not there."""
        return self._blocked

    def unblock(self) -> bool:
        """Let the shards go on whose files are there again; whether there are any."""
        store, before = self._state.root.store, self._blocked
        self._blocked = {s: held for s, held in before.items() if not is_there(store, held)}
        return len(self._blocked) < len(before)

    # -- the parts --------------------------------------------------------------------------------

    def _piece(
        self,
        accumulator: BatchAccumulator,
        read: ReadPart,
        write: ChooseWriter,
        cuts: Cuts | None,
        *,
        last: bool,
    ) -> Piece | None:
        """Read a part, judge its rows and write them; None if all of them were ordered before."""
        state = self._state
        watermarks = state.watermarks()
        sent, sources = read()
        projected = unfold(sent) if sent.schema.equals(SENT) else sent
        rows = self._without_blocked(above(projected, watermarks))
        if not rows.num_rows:
            return None
        if not accumulator.rows:
            reach(Step.ORDER_CUT)
            self._counter += 1
            accumulator.recorded = self._unpassed.recorded()
        rows = with_verdicts(settled_files(rows, state.root), accumulator.recorded)
        # Of all attempts and trials together: each file is read once, and not for each of them.
        read_here = SourceFiles(state.root.store) if sources is None else sources
        elsewhere = write(rows)
        if last:
            reach(Step.ORDER_NUMBERED)
        piece = prepared(
            rows,
            lambda some, alone: self._attempt(
                accumulator, some, read_here, None if alone else elsewhere
            ),
            [
                lambda some: writing_trial(
                    lambda: self._plan_of(accumulator, some), some, read_here
                ),
                lambda some: lambda at: self._try(accumulator, some.take(pa.array(at)), read_here),
            ],
            lambda: try_control(self._wall(), self._state.root.store),
            read_here,
            cuts,
            self._suspects,
            elsewhere=elsewhere is not None,
        )
        room = MOST_LINKS - len(accumulator.traces)
        accumulator.traces += traces_of(piece.batch, piece.ordered.survivors, read_here)[:room]
        return piece

    def _without_blocked(self, rows: pa.Table) -> pa.Table:
        """The rows before those of a file that is not there: its shard waits from its commit on."""
        rows, found = split_off_missing(rows, self._state.root.store, self._blocked)
        for shard, held in found.items():
            log.error("shard.blocked", shard=shard, file=held.path, why=held.why)
        self._blocked = {**self._blocked, **found}  # who compares has the one before
        return rows

    def _without(self, ends: Mapping[ShardName, Stamp]) -> dict[ShardName, Stamp]:
        """The ends of shards that do not wait: one that does may come as far as its gap."""
        return {shard: end for shard, end in ends.items() if shard not in self._blocked}

    def _numbered(
        self, accumulator: BatchAccumulator, rows: pa.Table
    ) -> tuple[ProjectedBatch, Ordered]:
        # The rows of an attempt that has failed are those that are tried first.
        if accumulator.tried is not None and accumulator.tried[0] is rows:
            return accumulator.tried[1:]
        state = self._state
        batch = ProjectedBatch.of(rows)
        accumulator.topics |= state.rules([t for t in batch.topics if t not in accumulator.topics])
        offsets = {**state.next_offsets(batch.places()), **accumulator.next_offsets}
        marks = {**state.log.txns, **accumulator.marks} if accumulator.marks else state.log.txns
        ordered = order(batch, accumulator.ids, offsets, accumulator.topics, marks)
        accumulator.tried = (rows, batch, ordered)
        return batch, ordered

    def _attempt(
        self,
        accumulator: BatchAccumulator,
        rows: pa.Table,
        sources: SourceFiles,
        write: WriteFiles | None,
    ) -> Piece:
        """Number rows and write them, make files of the others; nothing is committed."""
        began = time.perf_counter()
        batch, ordered = self._numbered(accumulator, rows)
        numbered = time.perf_counter()
        adds = self._write(accumulator, batch, ordered, sources, write)
        making = RejectRows(self._state.root.store, sources, accumulator.now)
        rejects = making.files_of(batch, ordered, accumulator.topics, accumulator.recorded)
        written = time.perf_counter()
        return Piece(batch, ordered, adds, rejects, numbered - began, written - numbered)

    def _stored(self, piece: Piece, cuts: Cuts | None) -> list[Add]:
        """Its files of `rejects`, as soon as storage takes them. Raises `Divisible`, too: what
        comes before the first row of them is committed first, if the batch can be divided."""
        ordered, rows = piece.ordered, piece.batch.table

        def first_refused() -> None:
            aside = np.concatenate([ordered.refused, ordered.duplicates])
            first = piece.batch.stamp[aside].min()
            known = [cut for cut in (cuts(rows) if cuts is not None else ()) if cut < first]
            if known:
                raise Divisible(rows, known[-1:], SourceFiles(self._state.root.store), 1)

        return self._rejects.store(piece.rejects, first_refused)

    def _try(self, accumulator: BatchAccumulator, rows: pa.Table, sources: SourceFiles) -> None:
        """All of that, and nothing is stored."""
        batch, ordered = self._numbered(accumulator, rows)
        render_log_files(log_plan(batch, ordered, accumulator.topics, accumulator.now, 1), sources)

    def _plan_of(self, accumulator: BatchAccumulator, rows: pa.Table) -> pa.Table:
        batch, ordered = self._numbered(accumulator, rows)
        return log_plan(batch, ordered, accumulator.topics, accumulator.now, 1)

    def _commit_rejects(self, accumulator: BatchAccumulator) -> None:
        plan, self._plan = self._plan, None
        planned = None if plan is None else self._without(plan)
        if planned:
            store, came = self._state.root.store, accumulator.watermarks
            planned = {s: e for s, e in planned.items() if s in came or reaches(store, s, e)}
        # Where every shard of the plan waits, nothing of it is left to keep to.
        if planned and self._without(accumulator.watermarks) != planned:
            raise LeadershipLost(
                f"the first batch ends at {accumulator.watermarks}, and {plan} was planned",
                hint="start the job again",
            )
        if accumulator.duplicates or accumulator.refused:
            if accumulator.rejects:
                number = order_number(self.epoch, self._counter)
                self._rejects.commit(accumulator.rejects, accumulator.watermarks, number)
            reach(Step.ORDER_REJECTS_COMMITTED)

    def _write(
        self,
        accumulator: BatchAccumulator,
        batch: ProjectedBatch,
        ordered: Ordered,
        sources: SourceFiles,
        write: WriteFiles | None,
    ) -> list[Add]:
        if not len(ordered.survivors):
            return []
        size = int(batch.table["bytes"].to_numpy().sum())
        files = max(1, min(size // _FILE_BYTES, self._files))
        plan = log_plan(batch, ordered, accumulator.topics, accumulator.now, files)
        uri = self._state.root.uri
        if write is not None:
            return write(uri, plan)
        if files == 1:
            return write_log_files(uri, plan, sources=sources)
        written = self._pool.map(
            lambda part: write_log_files(uri, part, sources=sources), by_file(plan)
        )
        return [add for adds in written for add in adds]

    def _commit(self, accumulator: BatchAccumulator) -> None:
        """Rows and the watermarks they move, at once."""
        actions = accumulator.actions(order_number(self.epoch, self._counter))
        info = {"epoch": self.epoch, "counter": self._counter, "rows": accumulator.ordered}
        fenced_commit(self._state.log, actions, info, self.epoch)


def _read_before(rows: pa.Table, sources: SourceFiles) -> tuple[pa.Table, SourceFiles]:
    return rows, sources
