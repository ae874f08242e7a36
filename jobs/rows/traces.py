"""The traces of the records of a batch, as far as its one span is linked with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jobs.rows.projected_rows import ProjectedBatch
from lakequeue.tracing import spans
from lakequeue.tracing.context import TraceContext, in_headers
from queue_tables.log.writer import SourceFiles

_LOOKED_AT = 512
"""Records of a piece whose headers are looked at: a batch may have a million."""


def traces_of(
    batch: ProjectedBatch, rows: npt.NDArray[np.int64], sources: SourceFiles
) -> list[TraceContext]:
    """Traces of the first of these rows, as far as this process has read their files anyway."""
    if spans.tracer() is None:
        return []
    some = batch.table.select(["file", "row"]).take(rows[:_LOOKED_AT])
    found: dict[TraceContext, None] = {}
    for path, row in zip(some["file"].to_pylist(), some["row"].to_pylist(), strict=True):
        read = sources.held(path)
        headers = None if read is None else read["headers"][row].as_py()
        if headers:
            trace = in_headers((header["key"], header["value"]) for header in headers)
            if trace is not None:
                found[trace] = None
        if len(found) == spans.MOST_LINKS:
            break
    return list(found)
