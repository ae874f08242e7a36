"""The streaming source over all shards of a kind: a Python Data Source.

Spark calls `latestOffset` and `partitions` in one Python process that lives as long as the query,
and `read` in a worker. An offset is `{shard: last stamp admitted}`: stamps rise strictly within a
shard and are what `log` keeps as its watermarks, so an offset needs no translation. A query is
started on a new checkpoint in each process; what Spark remembers of an older one does not exist.

While the driver does not lead, and while nothing is new, `latestOffset` returns `start` unchanged,
after waiting for a commit or a notification for at most `poll_s`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from jobs.source.batch_manifest import BatchManifest, manifest_of
from jobs.source.batch_pace import BatchPace
from jobs.source.consistent_cut import VisibleCommit
from jobs.source.shard_scanner import Offset, ShardScanner
from jobs.source.source_channel import SourceEnd
from lakequeue.clock import boot_seconds
from queue_tables.delta.store import open_store
from queue_tables.files.commit_events import CommitEvents
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.schemas import JOURNAL

_SPLIT_BYTES = 16 << 20
"""Batches of fewer record bytes are read by one task: a second one costs more than it gains."""

REHEARSAL = ""
"""Stands in the offset of the rehearsal batch, where no shard can have this name."""

_INBOX_DDL = (
    "file STRING, topic_id STRING, row INT, stamp BIGINT, `partition` INT, "
    "id_hi BIGINT, id_lo BIGINT, request STRING, bytes INT, judged STRING, fault STRING"
)
_JOURNAL_DDL = ", ".join(
    ["shard STRING", *(column.spark_ddl for column in JOURNAL.columns if column.name != "hour")]
)


@dataclass(frozen=True)
class SourceOptions:
    """Options of a shard source; all travel as strings."""

    root: str
    folder: Path
    """Where the driver listens, see `source_channel`."""
    kind: ShardKind
    max_batch_bytes: int
    driver_batch_bytes: int
    """The driver reads batches up to this itself."""
    poll_s: float
    min_interval_s: float
    """At most one batch in this time."""
    tasks: int
    """Tasks that read a large batch."""
    attempt: int = 0
    """How often the query was started before: the source of an earlier start may still run."""
    bulk_interval_s: float = 0.0
    """At most one batch in this time while much comes in, see `BatchPace`."""

    def to_options(self) -> dict[str, str]:
        """What `DataStreamReader.options` takes."""
        return {name: str(value) for name, value in vars(self).items()}

    @staticmethod
    def of(options: dict[str, str]) -> SourceOptions:
        """Read them back; Spark hands them over with case-insensitive keys."""
        return SourceOptions(
            options["root"],
            Path(options["folder"]),
            cast(ShardKind, options["kind"]),
            int(options["max_batch_bytes"]),
            int(options["driver_batch_bytes"]),
            float(options["poll_s"]),
            float(options["min_interval_s"]),
            int(options["tasks"]),
            int(options["attempt"]),
            float(options["bulk_interval_s"]),
        )


class ShardFiles(InputPartition):
    """What one task reads."""

    value: BatchManifest


class ShardSource(DataSource):
    """Shards of one kind; register the class of that kind.

    One class a query: Spark keeps the environment of a registered class in one `HashMap`, into
    which each query that starts puts values. Two queries that start at once corrupt it, and from
    then on no task of either can be deserialised (java.io.OptionalDataException).
    """

    ddl: str

    def schema(self) -> str:
        """Projected rows of the inbox, or whole rows of the journal."""
        return self.ddl

    def streamReader(self, schema: StructType) -> ShardReader:  # noqa: N802 -- Spark's name
        """The reader; made in the planning process and pickled to the workers."""
        return ShardReader(SourceOptions.of(dict(self.options)))


class InboxSource(ShardSource):
    """`format("lakequeue-inbox")`."""

    ddl = _INBOX_DDL

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return "lakequeue-inbox"


class JournalSource(ShardSource):
    """`format("lakequeue-journal")`."""

    ddl = _JOURNAL_DDL

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return "lakequeue-journal"


SOURCES: dict[ShardKind, type[ShardSource]] = {"inbox": InboxSource, "journal": JournalSource}


class ShardReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Looks, cuts and reads. Only `read` runs outside the query's own process."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._scanner: ShardScanner | None = None
        self._driver: SourceEnd | None = None
        self._commits: CommitEvents | None = None
        self._targets: Offset | None = None
        self._batches = 0
        self._pace = BatchPace(
            options.min_interval_s, options.bulk_interval_s, options.max_batch_bytes
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options}

    # -- in the planning process ------------------------------------------------------------------

    def _parts(self) -> tuple[ShardScanner, SourceEnd]:
        if self._scanner is None or self._driver is None:
            options = self._options
            root = QueueRoot(open_store(options.root), "")
            self._scanner = ShardScanner(root, options.kind, options.max_batch_bytes)
            self._driver = SourceEnd(options.folder, options.kind, options.attempt)
            self._commits = CommitEvents.of(root.store)
        return self._scanner, self._driver

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 -- Spark's name
        """Nothing: each term brings its own watermarks."""
        return {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """End at what is visible now. The driver leads before it starts such a query."""
        scanner, driver = self._parts()
        term = driver.state()
        if term is not None:
            scanner.begin(term)
        self._targets = scanner.targets()

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:  # noqa: N802 -- Spark's name
        """The end of the next batch, or `start` unchanged."""
        scanner, driver = self._parts()
        if self._batches == 0:
            # One batch without rows: what starts late in Spark (workers, compiled code) has
            # started when this process comes to lead. A take-over is then as quick as a batch.
            self._batches = 1
            driver.tell_batch(0, None)
            return {**start, REHEARSAL: 1}
        options = self._options
        deadline = boot_seconds() + (0.0 if self._targets is not None else options.poll_s)
        while True:
            term = driver.state()
            early_s = self._early_s()
            if term is not None and early_s <= 0:
                scanner.begin(term)
                end = scanner.next_end(self._targets)
                driver.tell_status(scanner.pending_rows(), scanner.stuck())
                if end is not None:
                    seen = scanner.between(_offset(start), end)
                    rows, size = sum(s.rows for s in seen), sum(s.bytes for s in seen)
                    self._pace.began(boot_seconds(), rows, size, scanner.pending_rows())
                    self._tell_batch(seen)
                    return cast(dict[str, int], end)
            left = deadline - boot_seconds()
            if left <= 0:
                return start
            if early_s > 0:
                # Too early for the next batch: notifications do not matter until then.
                time.sleep(min(left, early_s))
            elif self._hears_more(scanner):
                continue
            elif not driver.wait(left, self._commits):
                # Spark asks again at once, which is a look: another one now would be a second.
                return start

    def _hears_more(self, scanner: ShardScanner) -> bool:
        """Hear of what the last look found; whether there is something to look at once more."""
        if self._commits is None:
            return False
        new = [folder for folder in scanner.folders() if self._commits.watch(folder)]
        return bool(new)

    def _tell_batch(self, seen: Sequence[VisibleCommit]) -> None:
        # Spark numbers the batches of a fresh checkpoint from 0, one for each new offset.
        _, driver = self._parts()
        options = self._options
        pieces = manifest_of(seen, options.driver_batch_bytes, options.max_batch_bytes)
        driver.tell_batch(self._batches, pieces)
        self._batches += 1

    def _early_s(self) -> float:
        """How long it is too early for a batch. A query with an end must not take that for one."""
        return 0.0 if self._targets is not None else self._pace.left_s(boot_seconds())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The files between, in as few tasks as is sensible."""
        scanner, _ = self._parts()
        seen = [] if REHEARSAL in end else scanner.between(_offset(start), _offset(end))
        tasks = self._options.tasks if sum(s.bytes for s in seen) >= _SPLIT_BYTES else 1
        return [ShardFiles(BatchManifest.of(part)) for part in _split(seen, tasks)]

    def commit(self, end: dict[str, int]) -> None:
        """Spark has done with everything up to `end`."""
        scanner, _ = self._parts()
        scanner.done(_offset(end))

    def stop(self) -> None:
        """The query ends."""
        if self._driver is not None:
            self._driver.close()
        if self._commits is not None:
            self._commits.close()
            self._commits = None

    # -- in a worker ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the files of `partition`."""
        # Only a worker needs these: the planning process stays small.
        from jobs.rows.key_projection import fact_rows, project_rows

        part = cast(ShardFiles, partition).value
        store = open_store(self._options.root)
        if self._options.kind == "inbox":
            yield from project_rows(store, part.files)
        else:
            yield from fact_rows(store, part.files, part.fences)


def _offset(read: dict[str, int]) -> Offset:
    """An offset as Spark hands it back, from JSON."""
    return cast(Offset, read)


def _split(seen: Sequence[VisibleCommit], tasks: int) -> list[Sequence[VisibleCommit]]:
    """Contiguous parts of about equal numbers of commits; at least one part."""
    tasks = max(1, min(tasks, len(seen)))
    size = -(-len(seen) // tasks) or 1
    return [seen[i : i + size] for i in range(0, len(seen), size)] or [[]]
