"""A bulk write larger than a batch may be: one commit, ordered in pieces, in one version."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from jobs.source.batch_manifest import BatchManifest
from lakequeue.clock import hour_of
from lakequeue.errors import StorageUnavailable
from lakequeue.records import Stamp
from queue_tables.delta.actions import Add
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.files.parquet import write_data_file
from queue_tables.log.writer import write_log_files
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX, LOG
from queue_tables.shards.bulk import BulkFile, commit_bulk, shard_of
from queue_tables.shards.shards import shard_path
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox, judge, log_rows, reject_rows
from tests.support.data.rows import rows_of
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000
FILES, ROWS = 12, 25
PIECE = 1_000
"""Record bytes of a batch; each file has 250."""


def bulk_file(root: QueueRoot, topic_ids: list[str], number: int, rng: random.Random) -> BulkFile:
    """What a task writes: some ids come again, one partition and one topic are not there."""
    shard, stamp = shard_of("spark-w", "0"), Stamp(BASE + number)
    columns: dict[str, list[Any]] = {
        "topic_id": rng.choices([*topic_ids, "gone"], [60, 39, 1], k=ROWS),
        "partition": rng.choices([0, 1, 2, 3], [40, 40, 19, 1], k=ROWS),
        "value": [b"%03d-%06d" % (number, n) for n in range(ROWS)],
        "headers": [[]] * ROWS,
        "timestamp": [stamp] * ROWS,
        "message_id": [
            f"m{rng.randrange(400)}" if rng.random() < 0.8 else None for _ in range(ROWS)
        ],
        "request": ["0"] * ROWS,
        "atomic": [False] * ROWS,
        "bytes": [10] * ROWS,
        "stamp": [stamp] * ROWS,
        "row": list(range(ROWS)),
    }
    rows = rows_of(INBOX, columns, without=("hour",))
    hour = {"hour": hour_of(stamp)}
    add = write_data_file(root.store, shard_path("inbox", shard), rows, hour, INBOX)
    return BulkFile(shard, add, stamp, ROWS, 10 * ROWS)


def filled(root: QueueRoot, seed: int = 3) -> Orderer:
    """A root with a large write in its inbox, after a few ordinary records; its leader."""
    rng = random.Random(seed)
    store = TopicStore(root)
    ids = [str(store.create(name, partitions=3)[0].topic_id) for name in ("orders", "flights")]
    node = Inbox(root, "n")
    node.commit(
        BASE - 1_000,
        [{"topic_id": ids[0], "value": b"first", "message_id": f"m{n}"} for n in range(20)],
    )
    files = [bulk_file(root, ids, number, rng) for number in range(FILES)]
    rng.shuffle(files)  # tasks end in any order
    commit_bulk(root, "spark-w", "0", 0, files)
    return Orderer(root, 1, PIECE)


def test_a_large_write_becomes_one_version_judged_as_if_it_were_held_whole(
    root: QueueRoot, tmp_path: Any
) -> None:
    orderer = filled(root)
    assert orderer.step() == {"rows": 20, "ordered": 20, "duplicates": 0}
    before = orderer.state.log.version
    files_before = set(load_snapshot(root.store, LOG.name).files)
    done = orderer.drain()
    assert [batch["rows"] for batch in done] == [FILES * ROWS]
    assert orderer.state.log.version == before + 1
    assert len(set(load_snapshot(root.store, LOG.name).files) - files_before) >= 3, "in pieces"
    judge(root)
    rejects = reject_rows(root)
    assert {r["reason"] for r in rejects} == {"duplicate", "topic_gone", "partition_gone"}

    twin = QueueRoot.open(str(tmp_path / "twin"))
    whole = filled(twin)
    whole.step()
    planned = whole.plan()
    assert planned is not None
    whole.term.process(planned)

    def places(root: QueueRoot) -> list[tuple[Any, ...]]:
        return [(r["value"], r["topic"], r["partition"], r["offset"]) for r in by_value(root)]

    def by_value(root: QueueRoot) -> list[dict[str, Any]]:
        return sorted(log_rows(root), key=lambda r: (r["stamp"], r["row"]))

    assert places(twin) == places(root)
    verdicts = [
        [(r["value"], r["reason"], r["original_partition"], r["original_offset"]) for r in some]
        for some in (rejects, reject_rows(twin))
    ]
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_a_leader_that_dies_between_pieces_leaves_nothing_half_done(
    root: QueueRoot, dies_at: int
) -> None:
    orderer = filled(root)
    orderer.step()
    written = 0

    def write(uri: str, plan: pa.Table) -> list[Add]:
        nonlocal written
        written += 1
        if written == dies_at:
            raise StorageUnavailable("killed")
        return write_log_files(uri, plan)

    pieces = orderer.cut()
    assert len(pieces) >= 3
    parts = [partial(orderer.read, piece) for piece in pieces]
    with pytest.raises(StorageUnavailable, match="killed"):
        orderer.term.process_parts(parts, lambda _rows: write)
    assert len(log_rows(root)) == 20, "nothing of it is visible"
    Orderer(root, 2, PIECE).drain()
    judge(root)


def test_one_piece_is_held_at_a_time(root: QueueRoot) -> None:
    orderer = filled(root)
    orderer.step()
    alive: list[int] = []
    pieces = orderer.cut()
    at_once = 0

    class Held:
        """Stands for the files of a piece."""

        def __init__(self) -> None:
            nonlocal at_once
            alive.append(1)
            at_once = max(at_once, len(alive))

        def held(self, path: str) -> None:
            """Nothing was read."""

        def __del__(self) -> None:
            alive.pop()

    def read(piece: BatchManifest) -> tuple[pa.Table, Any]:
        return orderer.read(piece)[0], Held()

    def write(uri: str, plan: pa.Table) -> list[Add]:
        return write_log_files(uri, plan)

    orderer.term.process_parts([partial(read, p) for p in pieces], lambda _rows: write)
    assert at_once == 1
    judge(root)
