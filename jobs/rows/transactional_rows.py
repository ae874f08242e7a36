"""Judged requests as they pass through Spark: text in their first row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from lakequeue.errors import CorruptTable
from queue_rules.produce.transactional_requests import TransactionalRequest


def transactional_text(
    rows: int,
    producer: str | None,
    epoch: int | None,
    last_sequence: int | None,
    consumed: str | None,
) -> str:
    """What the first row of such a request carries through Spark."""
    said: dict[str, Any] = {"rows": rows}
    if epoch is not None:
        said |= {"producer": producer, "epoch": epoch}
        if last_sequence is not None:
            said["next_sequence"] = last_sequence + 1
    if consumed is not None:
        said["consumed"] = orjson.Fragment(consumed)
    return orjson.dumps(said).decode()


def transactional_requests_of(
    judged: pa.ChunkedArray, topic_of: Callable[[int], str]
) -> list[TransactionalRequest]:
    """The requests to judge, in cut order. Raises `CorruptTable` if rows of one are missing."""
    found: list[TransactionalRequest] = []
    end = 0
    for first in np.flatnonzero(judged.is_valid().to_numpy()):
        at = int(first)
        said = orjson.loads(judged[at].as_py())
        if at < end or at + said["rows"] > len(judged):
            raise CorruptTable(f"the rows of the request at row {at} are not together")
        end = at + said["rows"]
        found.append(
            TransactionalRequest(
                at,
                said["rows"],
                topic_of(at),
                said.get("producer"),
                said.get("epoch"),
                said.get("next_sequence"),
                said.get("consumed"),
            )
        )
    return found
