"""Each statement of Spark and each call of delta-rs and polars, on each table: the whole matrix.

With the guard it is refused and changes nothing. Without, it lands, and no group loses a record,
gets one twice or out of order: in the queue that runs on and in a copy that is started anew, before
and after a repair. The doctor names it.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from queue_tables.schema.schemas import TABLES
from tests.support.faults.foreign import CALLS, SQL, run_sql
from tests.support.faults.statement_matrix import cell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.matrix, pytest.mark.slow, pytest.mark.timeout(2400)]
REFUSAL = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE|DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
_OF_RECORDS = sorted(name for name, table in TABLES.items() if not table.when_needed)
"""Those that a queue without authentication has."""


def run_statement(spark: SparkSession, statement: str, column: str, folder: str) -> None:
    run_sql(spark, statement, folder, column)


def run_all(spark: SparkSession, column: str, folder: str) -> None:
    """Each statement is refused, or finds nothing to do; none changes the table."""
    before, said = DeltaTable(folder).version(), {}
    for statement in SQL:
        try:
            run_sql(spark, statement, folder, column)
        except Exception as error:  # noqa: BLE001 -- Spark has errors of many kinds
            said[statement] = str(error)
        assert DeltaTable(folder).version() == before, statement
    assert [name for name, why in said.items() if not re.search(REFUSAL, why)] == [], said
    assert len(said) >= len(SQL) - 2


def column_of(table: str) -> str:
    return next(c.name for c in TABLES[table].columns if c.kind == "string" and c.name != "hour")


@pytest.mark.spark
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard taken off"])
@pytest.mark.parametrize("table", _OF_RECORDS)
def test_statements_of_spark(
    spark: SparkSession, tmp_path: Path, table: str, guarded: bool
) -> None:
    if guarded:
        # Refused, each changes nothing: one queue sees all of them.
        every = partial(run_all, spark, column_of(table))
        assert cell(tmp_path / "all", table, every, guarded=True) == ""
        return
    landed = []
    for number, statement in enumerate(SQL):
        run = partial(run_statement, spark, statement, column_of(table))
        if not cell(tmp_path / str(number), table, run, guarded=False):
            landed.append(statement)
    # Some do nothing to this table, or are refused for reasons of their own.
    assert len(landed) > len(SQL) // 2


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard taken off"])
@pytest.mark.parametrize("table", _OF_RECORDS)
def test_calls_of_delta_rs_and_polars(tmp_path: Path, table: str, guarded: bool) -> None:
    landed = []
    for name, call in CALLS.items():
        refused = cell(tmp_path / name, table, call, guarded=guarded)
        if not refused:
            landed.append(name)
    assert set(landed) <= {"delta-rs vacuum"} if guarded else len(landed) >= 3
