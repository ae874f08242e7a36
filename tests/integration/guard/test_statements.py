"""What delta-rs does to each table: refused; and if it lands, nothing is lost (the small matrix).

The whole one, with Spark's statements, is behind `make matrix`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from queue_tables.delta.guard import FEATURE
from tests.support.faults.foreign import CALLS
from tests.support.faults.statement_matrix import cell

TABLES = ("topics", "inbox", "log", "journal", "group_offsets", "rejects")
DATA = ("delta-rs append", "delta-rs delete", "delta-rs compact", "delta-rs restore")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("table", TABLES)
def test_a_guarded_table_refuses_and_the_queue_goes_on(tmp_path: Path, table: str) -> None:
    def every_call(folder: str) -> None:
        before = DeltaTable(folder).version()
        for name in DATA:
            # One that finds nothing to do ends without a word.
            with contextlib.suppress(DeltaError):
                CALLS[name](folder)
        assert DeltaTable(folder).version() == before
        with pytest.raises(DeltaError, match=FEATURE):
            CALLS["delta-rs append"](folder)

    assert cell(tmp_path / "root", table, every_call, guarded=True) == ""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("call", DATA)
@pytest.mark.parametrize("table", TABLES)
def test_what_lands_loses_doubles_and_misorders_nothing(
    tmp_path: Path, table: str, call: str
) -> None:
    cell(tmp_path / "root", table, CALLS[call], guarded=False)
