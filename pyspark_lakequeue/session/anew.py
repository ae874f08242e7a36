"""Every action on a frame of a registered session looks into the queue anew.

Spark 4.2 keeps what a source written in Python has planned for as long as a frame lives: a second
`count()`, a view and each batch of a join with a stream would see the records of the first one. It
plans again only where it offers the source a filter. So a frame gets one that every record passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
NEVER: Mapping[str, int | str] = {
    "offset": -1,
    "partition": -1,
    "topic": "",
    "timestampType": -1,
}
"""Columns of which every record has a value, and one that none has."""


def offer_filters(spark: SparkSession) -> None:
    """Let Spark offer filters to sources written in Python, unless the user has decided on that."""
    if spark.conf.get(PUSHDOWN, None) is None:
        spark.conf.set(PUSHDOWN, "true")


def offers_filters(spark: SparkSession) -> bool:
    """Whether it does."""
    return spark.conf.get(PUSHDOWN, "false") == "true"


def filtered(frame: DataFrame) -> DataFrame:
    """The same rows, but planned anew by every action. It has a column of `NEVER`."""
    name = next(name for name in NEVER if name in frame.columns)
    return frame.where(~sf.col(name).eqNullSafe(sf.lit(NEVER[name])))
