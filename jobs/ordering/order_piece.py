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
import structlog

from jobs.ordering.dividing import Divisible
from jobs.ordering.id_index import KnownIds
from jobs.ordering.numbering import Known, Ordered, TopicRule
from jobs.rows.blame import is_of_the_rows, said_of
from jobs.rows.halving import Units, find_guilty
from jobs.rows.projected_rows import PROJECTED, ProjectedBatch
from jobs.rows.row_faults import RowFault
from lakequeue.clock import Micros, boot_seconds
from lakequeue.errors import CorruptTable, StorageUnavailable
from lakequeue.records import Stamp, TopicId
from queue_tables.delta.actions import Add
from queue_tables.delta.store import Store
from queue_tables.log.writer import SourceFiles
from queue_tables.schema.reasons import Reason
from queue_tables.schema.schemas import INBOX

log = structlog.get_logger("order")


class Piece(NamedTuple):
    """Rows that are in memory together: a batch, or a part of a large one."""

    batch: ProjectedBatch
    ordered: Ordered
    adds: list[Add]
    """Log files of those that were numbered."""
    rejects: list[Add]
    """Of the others."""
    numbering_s: float
    writing_s: float


Attempt = Callable[[pa.Table, bool], Piece]
"""(rows, whether this process writes them by itself)"""
Trial = Callable[[pa.Table], None]
"""Does with these rows what an attempt does, and leaves nothing behind."""


SEARCH_S = 0.5
"""For so long all rows of a batch wait while the guilty ones are searched; then it is divided."""
Cuts = Callable[[pa.Table], Sequence[Stamp]]
"""(rows) -> stamps at which they can be divided"""


def prepared(
    rows: pa.Table,
    attempt: Attempt,
    trial: Trial,
    control: Callable[[], None],
    store: Store,
    cuts: Cuts | None = None,
) -> Piece:
    """The piece of `rows` (`PROJECTED`). Raises what no row is to blame for.

    `cuts`: where the rows can be divided into several batches. Raises `Divisible` if the search
    for those that fail takes long, and there is such a place.
    """
    try:
        return attempt(rows, False)
    except Exception as error:
        if not (isinstance(error, CorruptTable | FileNotFoundError) or is_of_the_rows(error)):
            raise
        log.warning("batch.failed", rows=rows.num_rows, error=said_of(error))
    # Once more, by this process alone: executors fail for reasons of their own.
    rows = without_torn(rows, store)
    try:
        return attempt(rows, True)
    except Exception as error:
        if not is_of_the_rows(error):
            raise
        control()
        known = cuts(rows) if cuts is not None else ()
        try:
            rows = without_guilty(rows, trial, SEARCH_S if known else None)
        except SearchTooLong:
            raise Divisible(rows, known) from error
        log.exception("rows.set_aside", rows=rows.num_rows)
    return attempt(rows, True)


# -- files that cannot be read ------------------------------------------------------------------


def without_torn(rows: pa.Table, store: Store) -> pa.Table:
    """The same rows, those of files that cannot be read as a whole with that fault."""
    sources = rows["file"].combine_chunks()
    faults = rows["fault"].to_pylist()
    codes = np.asarray(sources.indices)
    for code, path in enumerate(sources.dictionary.to_pylist()):
        mine = np.flatnonzero(codes == code)
        if not len(mine) or (faults[mine[0]] and RowFault.of(faults[mine[0]]).is_of_a_file):
            continue
        fault = _fault_of_file(store, path)
        if fault is not None:
            for row in mine.tolist():
                faults[row] = fault.text()
    return _with_faults(rows, faults)


def _fault_of_file(store: Store, path: str) -> RowFault | None:
    try:
        SourceFiles(store).get(path)
    except FileNotFoundError as error:
        # Its rows were read a moment ago. The batch is read anew, and its shard waits then.
        raise StorageUnavailable(f"{path} has gone: {error}", retry_after_s=1.0) from error
    except CorruptTable as error:
        return RowFault(Reason.UNREADABLE, error.detail)
    return None


# -- rows that make a piece fail ----------------------------------------------------------------


class SearchTooLong(Exception):
    """A search for guilty rows has taken the time that it may, and others wait."""


def without_guilty(rows: pa.Table, trial: Trial, most_s: float | None = None) -> pa.Table:
    """The same rows, those that make `trial` fail with that fault.

    Raises `SearchTooLong` if trials have taken `most_s`.
    """
    faults = rows["fault"].to_pylist()
    units = _units(rows)
    end = None if most_s is None else boot_seconds() + most_s

    def fails(chosen: Units) -> Exception | None:
        if end is not None and boot_seconds() >= end:
            raise SearchTooLong
        picked = np.sort(np.concatenate([units[unit] for unit in chosen]))
        try:
            trial(rows.take(pa.array(picked)))
        except Exception as error:
            if not is_of_the_rows(error):
                raise
            return error
        return None

    for guilty in find_guilty(len(units), fails):
        why = said_of(guilty.error)
        if len(guilty.units) > 1:
            why += f" (one of {len(guilty.units)} that were not looked at singly)"
        for unit in guilty.units:
            for row in units[unit].tolist():
                faults[row] = faults[row] or RowFault(Reason.UNORDERABLE, why).text()
    return _with_faults(rows, faults)


def _units(rows: pa.Table) -> list[npt.NDArray[np.int64]]:
    """Rows that are judged together: those of an atomic or judged request; else each alone.

    By topic: rows that fail for one reason are often of one topic, and few halves hold them then.
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
    return list(np.split(order_, borders)) if len(order_) else []


def _rows_of(judged: str) -> int:
    return int(orjson.loads(judged)["rows"])


def _with_faults(rows: pa.Table, faults: list[str | None]) -> pa.Table:
    at = PROJECTED.get_field_index("fault")
    return rows.set_column(at, PROJECTED.field(at), pa.array(faults, pa.string()))


# -- a row of our own ---------------------------------------------------------------------------

_TOPIC = TopicId("control")
_FILE = "inbox/control/rows.parquet"


CONTROL_TOPICS = {_TOPIC: TopicRule("control", 1, 1)}


class NoneKnown(Known):
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
