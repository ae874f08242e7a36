"""Each statement of Spark and each call of delta-rs and polars, on each table: the whole matrix.

With the guard it is refused and changes nothing. Without, it lands, and no group loses a record,
gets one twice or out of order, before and after a restart and a repair; the doctor names it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queue_tables.schema.schemas import TABLES
from tests.support.faults.foreign import CALLS, SQL, run_sql
from tests.support.faults.statement_matrix import When, cell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHEN: tuple[When, ...] = ("running", "restart")
_ROWS_ONLY = frozenset({"metrics", "group_history"})
"""Tables that nothing but reports is made of."""
_OF_RECORDS = sorted(name for name, table in TABLES.items() if not table.when_needed)
"""Those that a queue without authentication has."""


def run_statement(spark: SparkSession, statement: str, column: str, folder: str) -> None:
    run_sql(spark, statement, folder, column)


def column_of(table: str) -> str:
    return next(c.name for c in TABLES[table].columns if c.kind == "string" and c.name != "hour")


@pytest.mark.timeout(2400)
@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard taken off"])
@pytest.mark.parametrize("table", _OF_RECORDS)
def test_statements_of_spark(
    spark: SparkSession, tmp_path: Path, table: str, guarded: bool
) -> None:
    landed = []
    for number, statement in enumerate(SQL):
        when = WHEN[number % 2]
        refused = cell(
            tmp_path / str(number),
            table,
            partial(run_statement, spark, statement, column_of(table)),
            when,
            guarded=guarded,
        )
        if not refused:
            landed.append(statement)
    # Some do nothing on an empty table, or are refused for reasons of their own.
    assert landed == [] if guarded else len(landed) > len(SQL) // 2


@pytest.mark.timeout(2400)
@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard taken off"])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("table", sorted({*_OF_RECORDS} - _ROWS_ONLY))
def test_calls_of_delta_rs_and_polars(
    tmp_path: Path, table: str, when: When, guarded: bool
) -> None:
    landed = []
    for name, call in CALLS.items():
        refused = cell(tmp_path / name, table, call, when, guarded=guarded)
        if not refused:
            landed.append(name)
    assert set(landed) <= {"delta-rs vacuum"} if guarded else len(landed) >= 3
