"""What is said of records that are not there any more."""

from __future__ import annotations

import warnings

from lakequeue.errors import OffsetOutOfRange
from pyspark_lakequeue.source.vectors import Place, names


def out_of_range(what: str, hint: str = "") -> OffsetOutOfRange:
    """The error of lost data, as `failOnDataLoss` raises it."""
    return OffsetOutOfRange(
        f"some records may have been missed: {what}",
        hint=hint or 'set failOnDataLoss to "false" to go on from what is there',
    )


def report_loss(what: str, fail_on_data_loss: bool) -> None:
    """Raise `OffsetOutOfRange`, or warn."""
    if fail_on_data_loss:
        raise out_of_range(what)
    warnings.warn(f"some records may have been missed: {what}", stacklevel=3)


def report_begin(place: Place, first: int, fail_on_data_loss: bool) -> None:
    """The same, if the first record of a partition that is new to a query is not there any more."""
    if first > 0:
        report_loss(
            f"{names([place])} is new to the query, and starts at {first} instead of 0",
            fail_on_data_loss,
        )
