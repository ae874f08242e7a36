"""Bulk appends to the inbox: many files, written by many tasks, that become visible in one commit.

A *writer* (a Spark query, a write job) appends *batches*, numbered and rising. Of a batch that is
committed again, after a retry or a restart, nothing is added: the number of the newest batch stands
in the shard as a `txn`, in the same commit as its files.

A shard belongs to one *run* of a writer, and its name says which. The processes that commit for a
run come one after the other. A new run first seals the shards of all earlier ones: from then on
none of them can commit, and what they have committed can be read. Two runs that are alive at once
seal each other's shards, and each batch still gets in once: whoever appends had created its shard
before it looked, so the other's look, which seals, comes after that, or finds the batch there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lakequeue.clock import wall_micros
from lakequeue.errors import ClockSkew, CommitConflict, CorruptTable, ShardSealed, TailLost
from lakequeue.records import ShardName, Stamp, TopicId, Version, checked_name
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Action, Add, Txn
from queue_tables.delta.maintenance import vacuumed
from queue_tables.delta.table import TableLog, create_table
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import BATCH_TXN, GROUP_TXN, STAMP_TXN
from queue_tables.schema.schemas import INBOX
from queue_tables.schema.topic_rules import refuse_if_closed, refuse_if_grown
from queue_tables.shards.shards import QUIET, SEALED, node_of, seal_shard, shard_path
from queue_tables.topics import TopicStore

IN_ORDER = "in_order"
"""In a commit's info: its files are named in the order of their stamps, no two have the same."""
QUIET_S = 86_400
"""A query may run once an hour: its shard stays its own for a day."""
REFUSED = "refused"
"""In a commit's info: so many of its rows were refused, and are in the topic for such rows."""
ONCE = "0"
"""The run of a writer that has but one: nobody will ask what it remembers."""
_NONE = -1
_NOTHING: Mapping[str, int] = MappingProxyType({})
_NO_TOPICS: Mapping[TopicId, int] = MappingProxyType({})
_ATTEMPTS = 10
_AGAIN = "run the write again when the topic is open; a stream goes on when it is started again"
_YOUNG_MS = 3_600_000
"""No vacuum takes a file of this age."""


@dataclass(frozen=True, slots=True)
class BulkFile:
    """A data file that a task has written, durable, named by no commit yet."""

    shard: ShardName
    """The shard in whose folder it lies."""
    add: Add
    stamp: Stamp
    """The stamp of its rows; no two files of a batch have the same."""
    rows: int
    bytes: int
    """Of keys, values and headers."""


def shard_of(writer: str, run: str) -> ShardName:
    """The shard that tasks of this run write their files for. `run` has no "-" in it."""
    return ShardName(f"{checked_name(writer, 'writer')}-{run}")


def commit_bulk(
    root: QueueRoot,
    writer: str,
    run: str,
    batch: int,
    files: Sequence[BulkFile],
    said: Mapping[str, int] = _NOTHING,
    placed_among: Mapping[TopicId, int] = _NO_TOPICS,
) -> Version | None:
    """Make the files of a batch visible in one commit, durable on return; once, whoever retries.

    `said`: what the commit's info says of them besides. `placed_among`: the topics that have rows
    in them, and the number of partitions by which these were placed.

    `None`: the batch was there already, and these files are deleted. Raises `ClockSkew` if the
    stamps are not above those of the batches before; `CommitConflict` if another run goes on
    sealing this one's shards; `TopicClosed` if a topic takes no records, or has grown since its
    rows were placed (docs/protocols/repartitioning.md); storage errors with `stored`: committing
    the batch again is safe.
    """
    if not files:
        # Its stamp would be 0, and say of the shard that all of it is ordered.
        raise ValueError("a batch without files is not committed")
    for _ in range(_ATTEMPTS):
        own = _own_shard(root, writer, run)
        found = {own.path: own, **_settle_others(root, writer, own)}
        reach(Step.BULK_SETTLED)
        done = {path: table.txns.get(BATCH_TXN, _NONE) for path, table in found.items()}
        if batch <= max(done.values()):
            own.make_durable()
            # In the shard that has the batch these may be the files that it names.
            waste = [f for f in files if done.get(shard_path("inbox", f.shard), _NONE) < batch]
            discard(root, waste)
            return None
        _check_there(root, writer, batch, files)
        _check_stamps(files, max(table.txns.get(STAMP_TXN, 0) for table in found.values()))
        _check_topics(root, placed_among)
        try:
            version = _append(root, own, batch, files, said)
        except FileNotFoundError as gone:
            raise _gone(writer, batch, str(gone)) from gone
        except ShardSealed:
            continue  # by another run, or as abandoned: open the next one, and look again
        reach(Step.BULK_COMMITTED)
        return version
    raise CommitConflict(
        f"batch {batch} of {writer}: the shard was sealed {_ATTEMPTS} times by another run",
        hint="the same query or job runs twice: end one of them",
        stored="no",
    )


def seal_run(root: QueueRoot, writer: str, run: str) -> None:
    """No more batches come from this run."""
    for shard in root.shards("inbox"):
        if node_of(shard) == writer and _run_of(shard) == run:
            seal_shard(root, "inbox", shard)


def discard(root: QueueRoot, files: Sequence[BulkFile]) -> None:
    """Delete files that no commit names."""
    for file in files:
        root.store.delete(f"{shard_path('inbox', file.shard)}/{file.add.path}")


def discard_uncommitted(root: QueueRoot, files: Sequence[BulkFile]) -> None:
    """Delete those that no commit names, after a commit of unknown outcome."""
    named: dict[str, set[str]] = {}
    for shard in {file.shard for file in files}:
        path = shard_path("inbox", shard)
        if root.is_table(path):
            table = TableLog(root.store, path).open()
            named[shard] = set(table.files)
    discard(root, [f for f in files if f.add.path not in named.get(f.shard, ())])


def newest_stamps(root: QueueRoot, writer: str) -> dict[ShardName, Stamp]:
    """The newest stamp in each shard of a writer that has any."""
    found: dict[ShardName, Stamp] = {}
    root.forget_shards("inbox")
    for shard in root.shards("inbox"):
        if node_of(shard) != writer:
            continue
        try:
            table = TableLog(root.store, shard_path("inbox", shard), keep_files=False).open()
        except FileNotFoundError:
            continue  # it was ordered, and is removed
        if stamp := table.txns.get(STAMP_TXN):
            found[shard] = Stamp(stamp)
    return found


def create_run_shard(root: QueueRoot, path: str) -> None:
    """The empty table of a run's shard, if there is none."""
    create_table(root.store, path, INBOX, {**dict(INBOX.properties), QUIET: str(QUIET_S)})


def is_asked_again(shard: ShardName) -> bool:
    """Whether another run of the writer may come, and go by the newest batch in its shards."""
    return _run_of(shard) != ONCE


def _run_of(shard: ShardName) -> str:
    return shard.rpartition("-")[2].partition("x")[0]


def _own_shard(root: QueueRoot, writer: str, run: str) -> TableLog:
    """The run's shard that takes rows: the first, or after a seal the next one."""
    first = shard_of(writer, run)
    number = 0
    while True:
        path = shard_path("inbox", f"{first}x{number}" if number else first)
        create_run_shard(root, path)
        table = TableLog(root.store, path, keep_files=False).open()
        if not table.configuration.get(SEALED):
            return table
        number += 1


def _settle_others(root: QueueRoot, writer: str, own: TableLog) -> dict[str, TableLog]:
    """Seal every other shard of the writer, and open it: path → table as it will stay."""
    found: dict[str, TableLog] = {}
    for shard in root.shards("inbox"):
        path = shard_path("inbox", shard)
        if node_of(shard) != writer or path == own.path:
            continue
        try:
            seal_shard(root, "inbox", shard)
            found[path] = TableLog(root.store, path, keep_files=False).open()
        except (FileNotFoundError, CorruptTable):
            if root.is_table(path):
                raise
            root.forget_shards("inbox")  # it is being removed, or was
    return found


def _check_there(root: QueueRoot, writer: str, batch: int, files: Sequence[BulkFile]) -> None:
    """Vacuum takes files that nobody has committed a day after they were written."""
    limit_ms = wall_micros() // 1_000 - _YOUNG_MS
    names: dict[str, set[str]] = {}
    for file in files:
        if file.add.modification_time >= limit_ms:
            continue
        folder, _, name = f"{shard_path('inbox', file.shard)}/{file.add.path}".rpartition("/")
        if folder not in names:
            names[folder] = set(root.store.names(folder))
        if name not in names[folder]:
            raise _gone(writer, batch, f"{folder}/{name}")


def _check_topics(root: QueueRoot, placed_among: Mapping[TopicId, int]) -> None:
    """Raise `TopicClosed`. Called when the shard is open: closing one seals it or is seen."""
    topics = TopicStore(root) if placed_among else None
    for topic_id, partitions in placed_among.items():
        topic = topics.by_id(topic_id) if topics is not None else None
        if topic is not None:  # else it was deleted meanwhile: the order job says so, in `rejects`
            refuse_if_closed(topic, wall_micros(), _AGAIN)
            refuse_if_grown(topic, partitions, _AGAIN)


def _gone(writer: str, batch: int, path: str) -> CommitConflict:
    return CommitConflict(
        f"batch {batch} of {writer}: {path} was vacuumed before it was committed",
        hint="a write may take a day: run it again, in smaller parts",
        stored="no",
    )


def _check_stamps(files: Sequence[BulkFile], newest: int) -> None:
    lowest = min((file.stamp for file in files), default=newest + 1)
    if lowest <= newest:
        raise ClockSkew(
            f"the clock of this driver is {(newest - lowest) / 1e6:.3f} s behind the batch before",
            hint="wait that long, or fix NTP; then run the batch again",
            stored="no",
        )


def _append(
    root: QueueRoot,
    own: TableLog,
    batch: int,
    files: Sequence[BulkFile],
    said: Mapping[str, int],
) -> Version:
    # Told of them in the order of their stamps, the order job can take file after file.
    ordered = sorted(files, key=lambda file: file.stamp)
    adds = [_in_shard(root, own, file) for file in ordered]
    stamp = max((file.stamp for file in files), default=Stamp(0))
    sequence = own.txns.get(GROUP_TXN, 0) + 1
    actions: list[Action] = [Txn(GROUP_TXN, sequence), Txn(STAMP_TXN, stamp), Txn(BATCH_TXN, batch)]
    info = {
        "stamp": stamp,
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.bytes for file in files),
        IN_ORDER: True,
        **said,
    }
    while True:
        try:
            return own.commit([*actions, *adds], info)
        except CommitConflict as conflict:
            if own.configuration.get(SEALED):
                raise ShardSealed(f"{own.path} was sealed", stored="no") from conflict
            if own.txns.get(BATCH_TXN, _NONE) >= batch:
                # An earlier try of unknown outcome had landed; it names the same files.
                own.make_durable()
                return own.version
            if vacuumed(adds, conflict.commits):
                raise FileNotFoundError(f"{own.path}/{adds[0].path}") from conflict
            if any(commit.appends for commit in conflict.commits):
                raise CorruptTable(
                    f"{own.path}: version {own.version} was appended by another process",
                    hint="no process but those of its run may append to a shard",
                    stored="no",
                ) from conflict
        except TailLost as lost:
            raise ShardSealed(f"{own.path} went on without this process", stored="no") from lost


def _in_shard(root: QueueRoot, own: TableLog, file: BulkFile) -> Add:
    """The file as one of this shard: copied, if the tasks wrote for one that is sealed since."""
    path = shard_path("inbox", file.shard)
    if path == own.path:
        return file.add
    root.store.put(f"{own.path}/{file.add.path}", root.store.get(f"{path}/{file.add.path}"))
    return file.add
