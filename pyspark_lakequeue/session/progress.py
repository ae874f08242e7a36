"""How far a stream is behind, from what Spark reports of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from pyspark_lakequeue.source.vectors import Vector


class _Progress(Protocol):
    def __getitem__(self, key: str, /) -> Any: ...


def offsets_behind_latest(progress: _Progress) -> list[dict[str, str]]:
    """What the Kafka source has in `sources[n].metrics`: how far a query is behind the queue.

    Spark takes metrics from no source that is written in Python, so they are computed from the
    offsets that it reports.

    Args:
        progress: A progress of a query: `query.lastProgress`, or `event.progress` in a listener.

    Returns:
        For each source the numbers of records, over its partitions: `minOffsetsBehindLatest`,
        `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest`. Text, as there. Empty for a source that
        is not one of ours, and before there is a batch.

    Example:
        offsets_behind_latest(query.lastProgress)
    """
    return [_behind(source) for source in progress["sources"]]


def _behind(source: _Progress) -> dict[str, str]:
    done, latest = (_vector(source[name]) for name in ("endOffset", "latestOffset"))
    if done is None or latest is None:
        return {}
    behind = [max(0, to - done.offsets.get(place, 0)) for place, to in latest.offsets.items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _vector(said: object) -> Vector | None:
    """An offset as text or as what was read of it; None if it is not one of ours."""
    try:
        found = json.loads(said) if isinstance(said, str) else said
        return Vector.of(dict(found)) if isinstance(found, Mapping) else None
    except (ValueError, AttributeError, TypeError):
        return None
