"""One tailer per node: every new commit of `log` is read once, for all members.

Woken by the kernel or by the notification, and by a slow poll in case both are lost. A commit is
made durable before its records may leave (another process linked it into place), then its files are
decoded into the shared segments, then the members that own its partitions are woken.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping

import pyarrow as pa
import structlog

from consumer_service.reading.encode import COLUMNS
from consumer_service.reading.runs import runs_of
from consumer_service.reading.segments import Cut, Segments
from coordination.zookeeper.notifications import NotificationListener
from coordination.zookeeper.session import Session
from lakequeue.clock import boot_seconds
from lakequeue.errors import LakequeueError
from lakequeue.records import Offset, TopicId, TopicPartition
from queue_tables.delta.actions import Commit
from queue_tables.delta.maintenance import ERASED_INFO
from queue_tables.files.commit_events import CommitSignal
from queue_tables.files.parquet import read_data_file
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import next_offsets_in
from queue_tables.schema.schemas import LOG

log = structlog.get_logger()


def _changes_rows(commit: Commit) -> bool:
    """Whether it may change or remove rows that readers hold, though the queue did not make it."""
    if commit.info:
        return False
    return any(a.data_change for a in commit.adds) or any(r.data_change for r in commit.removes)


class Tailer:
    """Reads `log`. `wanted` says which topics to keep in memory; `wake` gets what grew.

    `changed` is called when rows may have been erased or changed that readers hold.
    `poll_s`: how late a commit is seen at most when its notification is lost.
    """

    def __init__(
        self,
        root: QueueRoot,
        segments: Segments,
        wanted: Callable[[TopicId], bool],
        wake: Callable[[set[TopicPartition]], None],
        poll_s: float,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._root = root
        self._segments = segments
        self._wanted = wanted
        self._wake = wake
        self._poll_s = poll_s
        self._changed = changed
        self._lock = threading.Lock()
        self._reader = LogReader(root, COLUMNS)
        self._seen = self._reader.version
        """The newest commit that was told, or passed over."""
        self._ends: dict[TopicPartition, Offset] = {}
        self._stopping = threading.Event()
        self._commits: CommitSignal | None = None
        self._notifier: NotificationListener | None = None
        self._thread = threading.Thread(target=self._run, name="tailer", daemon=True)
        self.failure: str | None = None
        """Why the newest attempt to read failed; None while all is well."""
        self.failing_since: float | None = None
        """When that began, in seconds since boot."""

    def start(self, session: Session) -> None:
        """Begin to follow the log."""
        self._commits = CommitSignal(self._root.store, LOG.name)
        self._notifier = NotificationListener(session, "log", self._commits).start()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._notifier is not None:
            self._notifier.wake()
            self._thread.join()
            self._notifier.close()
        if self._commits is not None:
            self._commits.close()

    def end(self, where: TopicPartition) -> Offset:
        """The offset that the partition's next record will get, as far as is known here.

        What lies below it is durable, and in memory if it is wanted there.
        """
        end = self._ends.get(where)
        if end is None:
            with self._lock:
                end = self._reader.end_offset(where.topic_id, where.partition)
                self._ends.setdefault(where, end)
        return end

    def known_end(self, where: TopicPartition) -> Offset | None:
        """`end` if it waits for nothing, neither for the files nor for who reads them; or None."""
        return self._ends.get(where)

    def marks(self) -> Mapping[str, int]:
        """Every mark of `log` as of now, durable."""
        self.catch_up()
        return self._reader.marks()

    def first(self, where: TopicPartition) -> Offset:
        """The lowest offset that still exists; the end if there is none."""
        return self._reader.first_offset(where.topic_id, where.partition)

    def offset_at(self, where: TopicPartition, micros: int) -> Offset:
        """The first offset whose timestamp is at or after `micros`; the end if there is none."""
        return self._reader.offset_at_time(where.topic_id, where.partition, micros)

    def read(self, where: TopicPartition, offset: int, max_rows: int, max_bytes: int) -> pa.Table:
        """Rows from `offset` on: from memory, else from the files.

        No row: there is none up to the end. Raises `OffsetOutOfRange` (with `first_offset`) when
        they have expired.
        """
        rows = self._segments.read(where, offset, max_rows, max_bytes)
        if rows is not None:
            return rows
        return self._reader.read_range(
            where.topic_id, where.partition, Offset(offset), max_rows, max_bytes
        )

    def due_times(self, where: TopicPartition, start: int) -> pa.Table:
        """`offset`, `deliver_at` and `expires_at` of the records from `start` on.

        Values are not read. Raises as `read`, and `FileNotFoundError` if files are rewritten
        meanwhile.
        """
        end, names = self.end(where), ["offset", "deliver_at", "expires_at"]
        spans = self._reader.spans(where.topic_id, where.partition, Offset(start), end)
        parts = [self._reader.columns_of(span, names) for span in spans]
        return pa.concat_tables(parts) if parts else LOG.file_arrow.empty_table().select(names)

    def cut(self, where: TopicPartition, offset: int, max_rows: int, max_bytes: int) -> Cut | None:
        """The records from `offset` on as they leave, if memory has them, see `Segments.cut`."""
        return self._segments.cut(where, offset, max_rows, max_bytes)

    def at_hand(self, where: TopicPartition, offset: int, most: int) -> int | None:
        """Bytes that `cut` has from `offset` on, see `Segments.at_hand`."""
        return self._segments.at_hand(where, offset, most)

    def read_one(self, where: TopicPartition, offset: int) -> pa.Table | None:
        """The row of that offset; `None` in a gap. Raises as `read`."""
        rows = self.read(where, offset, 1, 1)
        return rows if rows.num_rows and rows["offset"][0].as_py() == offset else None

    @property
    def gap_offsets(self) -> int:
        """How many offsets without a record were met, each counted once."""
        return self._reader.gap_offsets()

    def read_some(
        self,
        where: TopicPartition,
        offset: int,
        max_rows: int,
        max_bytes: int,
        may_hold: Callable[[Mapping[str, tuple[int, int]]], bool],
    ) -> tuple[pa.Table | None, int]:
        """As `read`, but skips row groups that `may_hold` refuses by their statistics.

        The rows, and the offset before which all is looked at or passed. None: nothing up to
        there, which is the end unless many row groups were skipped.
        """
        rows = self._segments.read(where, offset, max_rows, max_bytes)
        if rows is None:
            place = (where.topic_id, where.partition)
            begin, stop = self._reader.sought(*place, Offset(offset), max_rows, may_hold)
            if begin == stop:
                return None, begin
            rows = self.read(where, begin, min(max_rows, stop - begin), max_bytes)
            if rows.num_rows == 0:
                return None, stop
        return rows, rows["offset"][rows.num_rows - 1].as_py() + 1

    def catch_up(self) -> None:
        """Read what is there now (one step of the thread; also used to see one's own writes)."""
        failed: Exception | None = None
        with self._lock:
            commits = self._reader.refresh()
            first = commits[0].version if commits else self._reader.version + 1
            told = self._seen
            if first != told + 1:
                # After a long sleep some are not told, and one of them may have erased rows.
                self._let_go()
            self._seen = commits[-1].version if commits else self._reader.version
            untold = first != told + 1 or self._seen != self._reader.version
            grown: dict[TopicPartition, Offset] = {}
            for commit in commits:
                ends = next_offsets_in(commit.txns)
                grown |= ends
                if commit.info.get(ERASED_INFO) or _changes_rows(commit):
                    self._let_go()
                try:
                    if failed is None:
                        self._keep(commit, ends)
                except Exception as error:  # noqa: BLE001 -- raised when the others are taken in
                    # It is not told again: what others erase has to go all the same, and who waits
                    # has to hear of it. Cursors catch up from the files.
                    failed = error
            for where in self._ends.keys() - grown.keys() if untold else ():
                end = self._reader.end_offset(where.topic_id, where.partition)
                if end != self._ends[where]:
                    grown[where] = end
            self._ends |= grown
        if grown:
            self._wake(set(grown))
        if failed is not None:
            raise failed

    def _let_go(self) -> None:
        """Rows that are held may not be so any more."""
        self._segments.clear()
        self._changed()

    def _keep(self, commit: Commit, ends: Mapping[TopicPartition, Offset]) -> None:
        wanted = functools.cache(self._wanted)  # a file has a part for each partition
        # A file of which nobody wants a record is not even read.
        if not commit.appends or not any(wanted(where.topic_id) for where in ends):
            return
        for add in commit.adds:
            try:
                rows = read_data_file(self._root.store, LOG.name, add.path, COLUMNS)
            except FileNotFoundError:
                # Compacted and vacuumed since: cursors catch up from the files that replaced it.
                continue
            # Rows that no commit of the leader has numbered are for the files to tell.
            runs = [
                run
                for run in runs_of(rows)
                if wanted(run.where.topic_id) and run.first + run.length <= ends.get(run.where, 0)
            ]
            self._segments.append(rows, runs)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._notifier is not None:
                self._notifier.wait(self._poll_s)
            try:
                self.catch_up()
                self.failure = self.failing_since = None
            except LakequeueError as e:
                # Readiness shows it, and the next poll tries again: the log itself is unharmed.
                if self.failure is None:
                    log.warning("tail.failed", error=str(e))
                self._failed(e.detail)
            except Exception as e:
                # A tailer that ends would park every poll for ever.
                log.exception("tail.failed")
                self._failed(repr(e))

    def _failed(self, why: str) -> None:
        self.failing_since = self.failing_since or boot_seconds()
        self.failure = why
