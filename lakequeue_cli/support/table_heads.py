"""The newest commits of a table, without the statistics of its files: those hold values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from queue_tables.delta.store import Store

NEWEST = 20
"""Commits of a table that are told."""
_KEPT = ("commitInfo", "protocol", "txn")
"""Actions that are told as they are. Of `add` and `remove` only how many there are."""
_METADATA = ("id", "name", "partitionColumns", "configuration", "createdTime")


def table_head(store: Store, path: str) -> dict[str, Any]:
    """The version of a table, and what its newest commits did."""
    names = store.names(f"{path}/_delta_log")
    commits = [name for name in names if name.endswith(".json") and name[:20].isdigit()]
    told: dict[str, Any] = {}
    for name in commits[-NEWEST:]:
        try:
            lines = store.get(f"{path}/_delta_log/{name}").splitlines()
        except FileNotFoundError:
            continue  # maintenance has removed it meanwhile
        told[name] = commit_head(lines)
    return {
        "version": int(commits[-1][:20]) if commits else None,
        "log_objects": len(names),
        "checkpoints": [name for name in names if ".checkpoint" in name][-NEWEST:],
        "commits": told,
    }


def commit_head(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """What a commit did. Pure. A line that is no JSON is told as such."""
    told: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for line in lines:
        try:
            action = json.loads(line)
        except ValueError:
            counts["lines that are no JSON"] += 1
            continue
        for kind, content in action.items():
            if kind in _KEPT:
                told.append({kind: content})
            elif kind == "metaData":
                told.append({kind: {name: content.get(name) for name in _METADATA}})
            else:
                counts[kind] += 1
    return [*told, dict(counts)] if counts else told
