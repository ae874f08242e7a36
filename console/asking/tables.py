"""What the tables tell: the hours that are over, what ordering waits for, what is damaged.

Asked for only if whoever looks may read what concerns the whole queue. A storage that hangs holds
one thread for each of these, and the page says so.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

from console.asking.patience import Kept, Patience
from jobs.measuring.order_health import Said, look_at_order
from lakequeue.clock import Micros, hour_of, wall_micros
from lakequeue.records import Partition, TopicId
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file
from queue_tables.files.stats import FileStats
from queue_tables.groups.record_states import Stage
from queue_tables.groups.state import read_group_state
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import METRICS
from queue_tables.upkeep.health import Trouble, look

_SELDOM_S = 60.0
_HOUR_US = 3_600_000_000
HOURS = 24
MOST_OPEN = 50
_COLUMNS = ("hour", "group", "records_in", "records_out", "lag")


@dataclass(frozen=True, slots=True)
class Hour:
    """The whole queue in one hour."""

    hour: str
    records_in: int
    records_out: int
    lag: int


@dataclass(frozen=True, slots=True)
class LogPart:
    """What `log` has of one partition."""

    partition: int
    first: int
    end: int
    files: int
    bytes: int
    """Of whole files: other partitions may stand in them, too."""


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """A record of a queue group that is not settled."""

    topic: str
    partition: int
    offset: int
    attempt: int
    stage: str
    until: int
    """Microseconds since 1970."""


class Tables:
    """Thread-safe; opens the root when it is first asked for something."""

    def __init__(self, uri: str, patience: Patience) -> None:
        self.uri = uri
        self._lock = threading.Lock()
        self._root: QueueRoot | None = None
        self._reader: LogReader | None = None
        self.hours: Kept[list[Hour]] = Kept(
            patience, "the table metrics", lambda: past_hours(self._opened()), _SELDOM_S
        )
        self.order: Kept[list[Said]] = Kept(
            patience, "what ordering waits for", lambda: list(look_at_order(uri)), _SELDOM_S
        )
        self.troubles: Kept[list[Trouble]] = Kept(
            patience, "the health of the tables", lambda: look(self._opened()), _SELDOM_S
        )

    def log_parts(self, topic_id: str, partitions: int) -> list[LogPart]:
        """What `log` has of each partition of a topic. Raises storage errors."""
        reader = self._log()
        reader.refresh()
        found = []
        sizes = {add.path: add.size for add in reader.files()}
        paths: dict[int, set[str]] = defaultdict(set)
        for path in sizes:
            for key in reader.parts(path):
                if key.topic_id == topic_id:
                    paths[int(key.partition)].add(path)
        for number in range(partitions):
            mine = paths.get(number, set())
            found.append(
                LogPart(
                    number,
                    int(reader.first_offset(TopicId(topic_id), Partition(number))),
                    int(reader.end_offset(TopicId(topic_id), Partition(number))),
                    len(mine),
                    sum(sizes[path] for path in mine),
                )
            )
        return found

    def open_records(self, group: str) -> list[OpenRecord]:
        """What a queue group has open as of the last fold, soonest first. Raises storage errors."""
        found = []
        for key, state in read_group_state(self._opened()).states.items():
            if key.group != group or not state.is_queue or state.deleted:
                continue
            for row in state.records.open[:MOST_OPEN]:
                stage = Stage(int(row["stage"])).name.lower()
                found.append(
                    OpenRecord(
                        state.topic,
                        int(key.partition),
                        int(row["offset"]),
                        int(row["attempt"]),
                        "in flight" if stage == "delivered" else stage,
                        int(row["until"]),
                    )
                )
        return sorted(found, key=lambda one: (one.until, one.offset))[:MOST_OPEN]

    def _opened(self) -> QueueRoot:
        with self._lock:
            if self._root is None:
                self._root = QueueRoot.existing(self.uri, replica_too=True)
            return self._root

    def _log(self) -> LogReader:
        root = self._opened()
        with self._lock:
            if self._reader is None:
                self._reader = LogReader(root, ["offset"], cache_bytes=1 << 20)
            return self._reader


def past_hours(root: QueueRoot) -> list[Hour]:
    """The last `HOURS` that were measured, oldest first. Raises storage errors."""
    since = hour_of(Micros(wall_micros() - HOURS * _HOUR_US))
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    if not root.is_table(METRICS.name):
        return []
    for add in TableLog(root.store, METRICS.name).open().files.values():
        if _newest(add.stats) < since:
            continue
        rows = read_data_file(root.store, METRICS.name, add.path, _COLUMNS, add.deletion_vector)
        for row in rows.to_pylist():
            if row["hour"] >= since:
                took = sums[row["hour"]]
                took[0] += row["records_in"] or 0
                took[1] += row["records_out"] or 0
                took[2] += row["lag"] or 0
    return [Hour(hour, *sums[hour]) for hour in sorted(sums)]


def _newest(stats: str | None) -> str:
    """The last hour in a file; one that sorts behind all if it is not told."""
    return FileStats(stats).high("hour", str) or "~"
