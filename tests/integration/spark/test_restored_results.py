"""A table that delta-rs writes may be restored by Spark: its marks say so as well."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from tests.support.data.results import Result

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_restore_by_spark_takes_the_mark_back_as_one_by_delta_rs_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    result = Result(tmp_path)
    one = result.write("a", 1)
    result.write("a", 2)
    result.write("b", 30)
    stale = deltalake.DeltaTable(result.uri)
    spark.sql(f"RESTORE TABLE delta.`{result.uri}` TO VERSION AS OF {one}")
    assert (result.done("a"), result.done("b")) == (1, 0)
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        # Whoever has looked before it cannot commit on top of it.
        result.write("a", 3, stale)
    result.write("a", 2)
    assert (result.done("a"), result.done("b")) == (2, 0)
