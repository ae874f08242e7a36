"""Rows of a journal that are no facts stop neither a take-over nor the offsets job."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from jobs.folding.offsets_job import OffsetsJob
from jobs.rows.batch_file import BatchFile
from jobs.rows.key_projection import fact_rows
from lakequeue.records import Epoch, Partition, Stamp, TopicId, Version
from queue_tables.delta.stamps import LAST_STAMP
from queue_tables.delta.tail import Tail
from queue_tables.groups.facts import Key
from queue_tables.groups.state import GroupStateReader, read_group_offsets, read_group_state
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import JOURNAL
from queue_tables.shards.shards import ShardWriter
from tests.support.data.foreign_shard import ForeignShard
from tests.support.data.hostile_rows import hostile_rows, sound_rows

SOUND = Key("sound", TopicId("t1"), Partition(0))


def test_the_facts_around_them_count_for_a_taker_and_in_the_fold(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "root"))
    shard = ForeignShard(root, "c", "journal")
    stamp = {"stamp": 7}
    good = {"mode": "queue", "options": "{}", "group": "hostile", "offset": 3} | stamp
    hostile = [
        one.row
        for kind in ("committed", "parked", "dead")
        for one in hostile_rows(JOURNAL, good | {"kind": kind})
    ]
    sound = {"kind": "acked", "mode": "queue", "options": "{}", "group": "sound"} | stamp
    first, last = (
        sound_rows(JOURNAL, 1, sound | {"offset": at, "end_offset": at + 5}) for at in (0, 5)
    )
    shard.commit(7, pa.concat_tables([first, *hostile, last]))
    later = sound_rows(JOURNAL, 1, sound | {"offset": 10, "end_offset": 15, "stamp": 9})
    shard.commit(9, later)

    before = read_group_state(root).states
    assert before[SOUND].committed_offset == 15
    assert len(before) > 1
    assert read_group_state(root, "sound").states[SOUND].committed_offset == 15

    job = OffsetsJob(root)
    job.begin(Epoch(1))
    commits = [c for c in Tail(root.store, shard.path, Version(-1)).poll() if c.adds]
    for number, (commit, after, end) in enumerate(zip(commits, (0, 7), (7, 9), strict=True)):
        file = BatchFile(shard.name, commit.adds[0].path, Stamp(after), Stamp(end))
        job.fold(pa.Table.from_batches(fact_rows(root.store, [file])))
        states, folded = read_group_offsets(root)
        assert states[SOUND].committed_offset == (10, 15)[number]
        assert folded[shard.name] == end, "what is set aside is done with, and no more"
        assert read_group_state(root).states == before, "a fact counts folded if it does unfolded"


def test_the_stamp_of_a_fact_is_that_of_its_commit_whatever_its_row_says(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "root"))
    shard = ForeignShard(root, "c", "journal")
    said = {"kind": "acked", "mode": "queue", "options": "{}", "offset": 0, "end_offset": 5}
    stamps = [None, -(1 << 63), -1, 0, 3, 8, 100, LAST_STAMP, (1 << 63) - 1, 7]
    rows = [
        sound_rows(JOURNAL, 1, said | {"group": f"g{n}", "stamp": stamp})
        for n, stamp in enumerate(stamps)
    ]
    shard.commit(7, pa.concat_tables(rows))
    shard.commit(9, sound_rows(JOURNAL, 1, said | {"group": "later", "stamp": 9}))
    commits = [c for c in Tail(root.store, shard.path, Version(-1)).poll() if c.adds]
    assert len(read_group_state(root).states) == len(stamps) + 1

    job = OffsetsJob(root)
    job.begin(Epoch(1))
    for commit, after, end in zip(commits, (5, 7), (7, 9), strict=True):
        file = BatchFile(shard.name, commit.adds[0].path, Stamp(after), Stamp(end))
        job.fold(pa.Table.from_batches(fact_rows(root.store, [file])))
        assert read_group_offsets(root)[1][shard.name] == end
        assert len(read_group_state(root).states) == len(stamps) + 1
    assert len(read_group_offsets(root)[0]) == len(stamps) + 1


@pytest.mark.parametrize(
    "data", [None, b"", b"PAR1 and no more PAR1"], ids=["gone", "empty", "torn"]
)
def test_a_file_of_facts_that_cannot_be_read_is_passed(tmp_path: Path, data: bytes | None) -> None:
    root = QueueRoot.open(str(tmp_path / "root"))
    writer = ShardWriter.create(root, "journal", "c")
    said = {"kind": "acked", "mode": "queue", "options": "{}", "group": "sound"}
    for n, at in enumerate((0, 10, 5)):
        rows = sound_rows(JOURNAL, 1, said | {"offset": at, "end_offset": at + 5})
        writer.append(rows.drop_columns(["hour", "stamp", "row"]), Stamp(7 + n))
    seen = [c for c in Tail(root.store, f"journal/{writer.name}", Version(-1)).poll() if c.appends]
    files = [
        BatchFile(writer.name, add.path, Stamp(6 + n), Stamp(7 + n))
        for n, commit in enumerate(seen)
        for add in commit.adds
    ]
    other = ShardWriter.create(root, "journal", "d")
    elsewhere = sound_rows(JOURNAL, 1, said | {"group": "other", "offset": 0, "end_offset": 4})
    other.append(elsewhere.drop_columns(["hour", "stamp", "row"]), Stamp(7))
    reader = GroupStateReader(root)
    reader.read()
    reader.forget()
    lost = f"journal/{writer.name}/{files[1].path}"
    root.store.delete(lost)
    if data is not None:
        root.store.put(lost, data)
    for _ in range(2):
        assert reader.read().states[SOUND].committed_offset == 10, "before any fold has passed it"
    for group in ("other", "sound"):
        states = read_group_state(root, group).states
        assert {state.committed_offset for state in states.values()} == {
            4 if group == "other" else 10
        }

    job = OffsetsJob(root)
    job.begin(Epoch(1))
    job.fold(pa.Table.from_batches(fact_rows(root.store, files)))
    states, folded = read_group_offsets(root)
    assert states[SOUND].committed_offset == 10
    assert folded[writer.name] == 9
    assert read_group_state(root).states[SOUND].committed_offset == 10

    # The newest one as well: no later fact moves the fold position over it.
    writer.append(rows.drop_columns(["hour", "stamp", "row"]), Stamp(10))
    newest = BatchFile(writer.name, "hour=x/gone.parquet", Stamp(9), Stamp(10))
    job.fold(pa.Table.from_batches(fact_rows(root.store, [newest])))
    assert read_group_offsets(root)[1][writer.name] == 10
