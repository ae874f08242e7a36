"""The rows that other tests feed: that they are what they say."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queue_tables.delta.columns import Table
from queue_tables.schema.schemas import GROUP_OFFSETS, INBOX, JOURNAL, LOG, TABLES
from tests.support.data.hostile_rows import hostile_rows, sound_rows


@pytest.mark.parametrize("declared", TABLES.values(), ids=lambda t: t.name)
def test_every_column_of_every_table_is_covered(declared: Table) -> None:
    found = hostile_rows(declared)
    assert {hostile.column for hostile in found} == set(declared.arrow.names)
    assert all(hostile.row.schema == declared.arrow for hostile in found)
    assert len({hostile.name for hostile in found}) == len(found)


@pytest.mark.parametrize("declared", [INBOX, LOG, JOURNAL, GROUP_OFFSETS], ids=lambda t: t.name)
def test_text_that_is_none_survives_parquet_as_a_foreign_writer_leaves_it(declared: Table) -> None:
    for hostile in hostile_rows(declared):
        sink = pa.BufferOutputStream()
        pq.write_table(hostile.row, sink, store_schema=False)
        back = pq.read_table(pa.BufferReader(sink.getvalue()))
        wrong = "not UTF-8" in hostile.name and hostile.row[hostile.column].type != pa.binary()
        if wrong and not hostile.name.startswith(("headers.value", "key:", "value:")):
            with pytest.raises(pa.ArrowInvalid, match="UTF8"):
                back.validate(full=True)


def test_sound_rows_are_sound() -> None:
    for declared in TABLES.values():
        rows = sound_rows(declared, 3)
        rows.validate(full=True)
        assert rows.num_rows == 3
