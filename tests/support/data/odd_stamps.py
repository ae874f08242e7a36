"""Stamps that no commit of ours has, and commits that bring rows under them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from queue_tables.delta.actions import commit_path
from queue_tables.delta.stamps import LAST_STAMP
from queue_tables.delta.store import Store

ODD_STAMPS: Mapping[str, Any] = {
    "none": None,
    "zero": 0,
    "negative": -5,
    "the lowest": -(1 << 63),
    "year 2200": LAST_STAMP,
    "2^62": 1 << 62,
    "2^63": 1 << 63,
    "beyond 64 bits": 1 << 70,
    "text": "x",
    "true": True,
    "a fraction": 1.5,
    "a list": [7],
}


def restamp(
    store: Store, table_path: str, version: int, stamp: Any, *, mark_too: bool = False
) -> None:
    """Give the commit another stamp, as a foreign writer would; its mark too."""
    path = commit_path(table_path, version)
    actions = [orjson.loads(line) for line in bytes(store.get(path)).splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["lakequeue"]["stamp"] = _small(stamp)
        if mark_too and action.get("txn", {}).get("appId") == "stamp":
            action["txn"]["version"] = _small(stamp)
    text = b"\n".join(orjson.dumps(action) for action in actions)
    store.delete(path)
    store.put(path, text.replace(b'"<big>"', str(stamp).encode()))


def _small(stamp: Any) -> Any:
    # What orjson does not write goes in as text.
    return "<big>" if type(stamp) is int and abs(stamp) >= 1 << 63 else stamp
