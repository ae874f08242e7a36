"""Numbers and writes the rows of one piece of a batch, whatever is in them.

Nothing is committed here: what is written nobody sees. So a piece that fails can be tried again,
and where a row makes it fail each time, it is halved until that row is found (`jobs.rows.halving`).
The row is then put aside, and the rest is ordered. A piece of which even a row of our own making
fails is not the rows' fault: that error ends the process, as do those of storage and leadership.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from jobs.ordering.dividing import Divisible
from jobs.ordering.id_index import KnownIds
from jobs.ordering.log_plan import log_plan, places_in
from jobs.ordering.numbering import Known, Ordered, TopicRule, order
from jobs.rows.blame import is_of_the_rows, place_of, said_of
from jobs.rows.halving import Units, guilty_among
from jobs.rows.projected_rows import PROJECTED, ProjectedBatch
from jobs.rows.row_faults import RowFault
from lakequeue.clock import Micros, boot_seconds
from lakequeue.errors import CorruptTable, StorageUnavailable
from lakequeue.records import Stamp, TopicId
from queue_tables.delta.actions import Add
from queue_tables.delta.store import Store
from queue_tables.files.parquet import Rendered
from queue_tables.log.writer import SourceFiles, copy_rows, render_log_files, render_rows
from queue_tables.schema.reasons import Reason
from queue_tables.schema.schemas import INBOX

log = structlog.get_logger("order")


class Piece(NamedTuple):
    """Rows that are in memory together: a batch, or a part of a large one."""

    batch: ProjectedBatch
    ordered: Ordered
    adds: list[Add]
    """Log files of those that were numbered."""
    rejects: list[Rendered]
    """Files of the others, not stored yet."""
    numbering_s: float
    writing_s: float


Attempt = Callable[[pa.Table, bool], Piece]
"""(rows, whether this process writes them by itself)"""
Trial = Callable[[npt.NDArray[np.int64]], None]
"""Does with rows, chosen by position, what fails of an attempt; leaves nothing behind."""
Trials = Sequence[Callable[[pa.Table], Trial | None]]
"""Ways to try some of the rows, the quick one first; the last one leaves nothing out. None: rows
fail before what is tried so."""


SEARCH_S = 0.5
"""For so long all rows of a batch wait while the guilty ones are searched; then it is divided."""
Cuts = Callable[[pa.Table], Sequence[Stamp]]
"""(rows) -> stamps at which they can be divided"""


def prepared(
    rows: pa.Table,
    attempt: Attempt,
    trials: Trials,
    control: Callable[[], None],
    sources: SourceFiles,
    cuts: Cuts | None = None,
    suspects: set[str] | None = None,
    *,
    elsewhere: bool = False,
) -> Piece:
    """The piece of `rows` (`PROJECTED`). Raises what no row is to blame for.

    `sources` keeps the files that are read on the way. `cuts`: where the rows can be divided into
    several batches. Raises `Divisible` if the search for those that fail takes long, and there is
    such a place. `suspects`: topics of which rows were found last time, kept by the caller; they
    are tried alone, first, so that rows of other topics are not tried. `elsewhere`: other processes
    write.
    """
    suspects = set() if suspects is None else suspects
    search = Search(rows, control, sources, cuts)
    if suspects and not elsewhere:
        search.begin_with(suspects, trials[0])
    piece = _found(search, attempt, trials, sources, elsewhere=elsewhere)
    suspects -= _topics_in(rows)
    suspects |= search.topics
    return piece


def _found(
    search: Search, attempt: Attempt, trials: Trials, sources: SourceFiles, *, elsewhere: bool
) -> Piece:
    try:
        piece = attempt(search.rows, False)
    except Exception as error:
        unreadable = isinstance(error, CorruptTable | FileNotFoundError)
        if not (unreadable or is_of_the_rows(error)):
            raise
        log.warning("batch.failed", rows=search.rows.num_rows, error=said_of(error))
        failed = error
    else:
        if search.found:
            search.log_found()
        return piece
    if unreadable or elsewhere:
        # Once more, by this process alone: executors fail for reasons of their own.
        search.rows = without_torn(search.rows, sources)
        try:
            return attempt(search.rows, True)
        except Exception as error:
            if not is_of_the_rows(error):
                raise
            failed = error
    return _searched(search, attempt, trials, failed)


def _searched(search: Search, attempt: Attempt, trials: Trials, failed: Exception) -> Piece:
    """The piece of the rows without those that make it fail; it `failed` with them."""
    for begin in trials:
        is_last = begin is trials[-1]
        if is_last:
            search.control()
        before = search.found
        trial = begin(search.rows)
        if trial is not None:
            search.run(trial, once=not is_last)
        if search.found == before and not is_last:
            continue  # it fails at what is not tried here
        try:
            piece = attempt(search.rows, True)
        except Exception as error:
            if is_last or not is_of_the_rows(error):
                raise
            failed = error
            continue
        search.log_found(at=place_of(failed))
        return piece
    raise failed


# -- files that cannot be read ------------------------------------------------------------------


def without_torn(rows: pa.Table, read: SourceFiles) -> pa.Table:
    """The same rows, those of files that cannot be read as a whole with that fault."""
    sources = rows["file"].combine_chunks()
    faults = rows["fault"].to_pylist()
    codes = np.asarray(sources.indices)
    for code, path in enumerate(sources.dictionary.to_pylist()):
        mine = np.flatnonzero(codes == code)
        if not len(mine) or (faults[mine[0]] and RowFault.of(faults[mine[0]]).is_of_a_file):
            continue
        fault = _fault_of_file(read, path)
        if fault is not None:
            for row in mine.tolist():
                faults[row] = fault.text()
    return _with_faults(rows, faults)


def _fault_of_file(read: SourceFiles, path: str) -> RowFault | None:
    try:
        read.get(path)
    except FileNotFoundError as error:
        # Its rows were read a moment ago. The batch is read anew, and its shard waits then.
        raise StorageUnavailable(f"{path} has gone: {error}", retry_after_s=1.0) from error
    except CorruptTable as error:
        return RowFault(Reason.UNREADABLE, error.detail)
    return None


# -- rows that make a piece fail ----------------------------------------------------------------


class Search:
    """Finds the rows that make trials fail. What it has found stays, also if it is broken off."""

    def __init__(
        self,
        rows: pa.Table,
        control: Callable[[], None],
        sources: SourceFiles,
        cuts: Cuts | None,
    ) -> None:
        """`control` raises if this process fails at any row: then no row is to blame."""
        self.rows = rows
        """Those that were found have their fault."""
        self.found = 0
        """How many those are."""
        self.topics: set[str] = set()
        """Of those."""
        self.control = control
        self._why = ""
        self._only: frozenset[str] | None = None
        self._passed = False
        self._sources = sources
        self._cuts = cuts
        self.divides = cuts is not None
        """Whether it is broken off after a time, if the rows can be divided."""
        self._end: float | None = None

    def begin_with(self, topics: set[str], begin: Callable[[pa.Table], Trial | None]) -> None:
        """Try the rows of these topics, and no others."""
        there = topics & _topics_in(self.rows)
        trial = begin(self.rows) if there else None
        if trial is not None:
            self._only = frozenset(there)
            self.run(trial, once=True)
            self._only = None

    def log_found(self, **more: str) -> None:
        """Say how many were put aside."""
        log.error("rows.set_aside", rows=self.found, error=self._why, **more)

    def run(self, trial: Trial, *, once: bool = False) -> None:
        """Go on until all rows that have no fault pass `trial`; `once`: the caller tries them.

        Raises what `control` raises if no row passed, and `Divisible` if all searching has taken
        `SEARCH_S`, and the rows can be divided.
        """
        self._end = self._end or boot_seconds() + SEARCH_S
        faults = self.rows["fault"].to_pylist()
        units, topic_of = _units(self.rows)
        if self._only is not None:
            units = [unit for unit in units if topic_of(unit) in self._only]
        self._passed = False

        def fails(chosen: Units) -> Exception | None:
            if self.divides and boot_seconds() >= (self._end or 0):
                self._set(faults)
                self._divide()
            try:
                # Most trials are of one unit, and its rows are in order.
                rows = [units[unit] for unit in chosen.tolist()]
                trial(rows[0] if len(rows) == 1 else np.sort(np.concatenate(rows)))
            except Exception as error:
                if not is_of_the_rows(error):
                    raise
                return error
            self._passed = True
            return None

        for guilty in guilty_among(len(units), fails, once=once):
            self._why = why = said_of(guilty.error)
            if len(guilty.units) > 1:
                why += f" (one of {len(guilty.units)} that were not looked at singly)"
            for unit in guilty.units:
                self.topics.add(topic_of(units[unit]))
                for row in units[unit].tolist():
                    self.found += faults[row] is None
                    faults[row] = faults[row] or RowFault(Reason.UNORDERABLE, why).text()
        self._judge()
        self._set(faults)

    def _judge(self) -> None:
        if not self._passed:
            self.control()

    def _set(self, faults: list[str | None]) -> None:
        self.rows = _with_faults(self.rows, faults)

    def _divide(self) -> None:
        """Others have waited long enough; if the rows cannot be divided, they wait on."""
        known = self._cuts(self.rows) if self._cuts is not None else ()
        if known:
            self._judge()
            raise Divisible(self.rows, known, self._sources)
        self.divides = False


def writing_trial(
    plan: Callable[[], pa.Table], rows: pa.Table, sources: SourceFiles
) -> Trial | None:
    """Tries the writing alone: rows are numbered and copied once, for all trials.

    None if that fails already.
    """
    try:
        planned = plan()
        places, copied = places_in(planned, rows), copy_rows(planned, sources).combine_chunks()
    except Exception as error:
        if not is_of_the_rows(error):
            raise
        return None

    def write(at: npt.NDArray[np.int64]) -> None:
        chosen = places[at]
        if len(chosen) > 1:
            chosen = np.sort(chosen)
            chosen = chosen[chosen >= 0]
        if not len(chosen) or chosen[0] < 0:
            return
        first, count = int(chosen[0]), len(chosen)
        together = int(chosen[-1]) - first == count - 1
        # Halves are together nearly always: a slice costs nothing.
        render_rows(copied.slice(first, count) if together else copied.take(pa.array(chosen)))

    return write


def _topics_in(rows: pa.Table) -> set[str]:
    return set(pc.unique(rows["topic_id"].combine_chunks()).to_pylist())


def _units(
    rows: pa.Table,
) -> tuple[list[npt.NDArray[np.int64]], Callable[[npt.NDArray[np.int64]], str]]:
    """Rows that are judged together: those of an atomic or judged request; else each alone.

    By topic: rows that fail for one reason are often of one topic, and few halves hold them then.
    And what tells the topic of a unit.
    """
    owner = np.arange(rows.num_rows)
    judged = rows["judged"].combine_chunks()
    for first in np.flatnonzero(np.asarray(judged.is_valid())).tolist():
        owner[first : first + _rows_of(judged[first].as_py())] = first
    requests = rows["request"].combine_chunks()
    if requests.null_count < len(requests):
        shards, names = rows["shard"].to_pylist(), requests.to_pylist()
        firsts: dict[tuple[str, str], int] = {}
        for row in np.flatnonzero(np.asarray(requests.is_valid())).tolist():
            owner[row] = firsts.setdefault((shards[row], names[row]), int(owner[row]))
    topics = rows["topic_id"].combine_chunks().dictionary_encode()
    topic = np.asarray(topics.indices)
    order_ = np.lexsort((owner, topic[owner]))
    borders = np.flatnonzero(np.diff(owner[order_])) + 1
    names = topics.dictionary.to_pylist()
    units = list(np.split(order_, borders)) if len(order_) else []
    return units, lambda unit: str(names[topic[unit[0]]])


def _rows_of(judged: str) -> int:
    return int(orjson.loads(judged)["rows"])


def _with_faults(rows: pa.Table, faults: list[str | None]) -> pa.Table:
    at = PROJECTED.get_field_index("fault")
    return rows.set_column(at, PROJECTED.field(at), pa.array(faults, pa.string()))


# -- a row of our own ---------------------------------------------------------------------------

_TOPIC = TopicId("control")
_FILE = "inbox/control/rows.parquet"


_TOPICS = {_TOPIC: TopicRule("control", 1, 1)}


def try_control(now: Micros, store: Store) -> None:
    """Order a sound row of our own, in memory alone: where it fails, rows are not to blame."""
    rows, sources = control_rows(now, store)
    batch = ProjectedBatch.of(rows)
    ordered = order(batch, _NoneKnown(), {}, _TOPICS)
    render_log_files(log_plan(batch, ordered, _TOPICS, now, 1), sources)


class _NoneKnown(Known):
    """An index in which no id stands."""

    def find(
        self,
        topic_id: TopicId,
        hi: npt.NDArray[np.uint64],
        lo: npt.NDArray[np.uint64],
        *,
        oldest: Stamp,
        newest: Stamp,
        window_us: int,
    ) -> KnownIds:
        """Nothing."""
        return KnownIds.nothing(len(hi))


def control_rows(now: Micros, store: Store) -> tuple[pa.Table, SourceFiles]:
    """One sound row (`PROJECTED`), and the file that it stands in, which is in memory alone."""
    said = {
        "topic_id": _TOPIC, "partition": 0, "key": b"k", "value": b"v", "key_format": 1,
        "value_format": 1, "headers": [{"key": "h", "value": b"v"}], "timestamp": now,
        "message_id": "m", "stamp": now, "row": 0, "request": "0", "atomic": False, "bytes": 2,
    }  # fmt: skip
    sources = SourceFiles(store)
    sources.hold(_FILE, pa.Table.from_pylist([said], schema=INBOX.file_arrow))
    projected = {
        **{name: said.get(name) for name in PROJECTED.names},
        "file": _FILE,
        "shard": "control",
    }
    projected |= {"id_hi": 1, "id_lo": 1, "request": None}
    return pa.Table.from_pylist([projected], schema=PROJECTED), sources
