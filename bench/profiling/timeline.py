"""Where a record's time goes: stations that its tables, its batch and its consumer tell of.

The table `log` says of each record its stamp (the group of its ingest node was closed) and when it
was numbered; commit files tell when they became durable; the driver's log tells the phases of each
batch. All clocks are the wall clock of the one machine.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq

_NAME = re.compile(r"^\d{20}\.json$")


@dataclass(frozen=True)
class Batch:
    """One `batch.ordered` of the driver's log; seconds since the epoch."""

    began: float
    numbered: float
    written: float


class Stations(NamedTuple):
    """When a record was where; seconds since the epoch."""

    sent: float
    sealed: float
    durable: float
    free: float
    """The batch before its own has ended."""
    taken: float
    numbered: float
    written: float
    ordered: float
    received: float


STAGES = (
    ("sent → group closed", "the client's batch, HTTP, parsing, waiting for the group before"),
    ("group closed → acknowledged table", "Parquet, fsync, commit into the inbox"),
    ("inbox → the batch before ends", "a trigger is under way: its batch, its checkpoint"),
    ("→ its batch begins", "notification, Spark's trigger, the source, reading the inbox"),
    ("numbering", "deduplication, sorting, offsets"),
    ("writing", "values copied into log files, Parquet, fsync"),
    ("committing", "what is left of Spark's planning, the commit of `log`, fsync"),
    ("log → received", "notification, tail, JSON, HTTP, the client"),
)


def batches(lines: Iterable[str]) -> dict[int, Batch]:
    """By version of `log`, out of the driver's log."""
    found = {}
    for line in lines:
        if '"batch.ordered"' not in line:
            continue
        event = json.loads(line)
        ended = datetime.fromisoformat(event["timestamp"]).timestamp()
        began = ended - event["all_ms"] / 1e3
        numbered = began + event["numbering_ms"] / 1e3
        found[event["version"]] = Batch(began, numbered, numbered + event["writing_ms"] / 1e3)
    return found


def triggers(lines: Iterable[str]) -> dict[str, float]:
    """How many triggers of the order job Spark has told of, and the mean milliseconds of their
    phases."""
    total, count = Counter[str](), 0
    for line in lines:
        if '"query.triggered"' not in line or '"order"' not in line:
            continue
        event = json.loads(line)
        count += event["triggers"]
        for name, mean in event.items():
            if isinstance(mean, int | float) and name != "triggers":
                total[name] += mean * event["triggers"]
    return {"triggers": count} | {name: round(ms / count, 1) for name, ms in total.items()}


def commits(table: Path) -> dict[int, float]:
    """When each version of a table became visible."""
    return {
        int(path.stem): _named_at(path)
        for path in (table / "_delta_log").iterdir()
        if _NAME.match(path.name)
    }


def shard_commits(inbox: Path) -> dict[str, dict[int, float]]:
    """Of each shard: when the commit of a stamp became visible."""
    found: dict[str, dict[int, float]] = {}
    for log in inbox.glob("*/_delta_log"):
        stamps = found.setdefault(log.parent.name, {})
        for path in log.iterdir():
            if _NAME.match(path.name):
                for line in path.read_bytes().splitlines():
                    mark = json.loads(line).get("txn")
                    if mark is not None and mark["appId"] == "stamp":
                        stamps[mark["version"]] = _named_at(path)
    return found


def _named_at(commit: Path) -> float:
    """A commit is written and synced before it gets its name, and this is when it got it."""
    return commit.stat().st_ctime


def stations(
    root: Path,
    of_batch: Mapping[int, Batch],
    sent: Mapping[int, float],
    received: Mapping[int, float],
) -> list[Stations]:
    """Of every record of which all is known; records have their number in their value."""
    visible, shards = commits(root / "log"), shard_commits(root / "inbox")
    found = []
    for version, batch in sorted(of_batch.items()):
        path = root / "log" / "_delta_log" / f"{version:020d}.json"
        if not path.exists():
            continue
        for line in path.read_bytes().splitlines():
            added = json.loads(line).get("add")
            if added is None or not added["dataChange"]:
                continue
            file = pq.ParquetFile(root / "log" / unquote(added["path"]))
            rows = file.read(columns=["value", "stamp", "shard"]).to_pylist()
            for row in rows:
                number = int(row["value"][22:34])
                durable = _at(shards.get(row["shard"], {}), row["stamp"])
                if number in sent and number in received and durable is not None:
                    found.append(
                        Stations(
                            sent[number],
                            row["stamp"] / 1e6,
                            durable,
                            min(max(durable, visible.get(version - 1, durable)), batch.began),
                            batch.began,
                            batch.numbered,
                            batch.written,
                            visible[version],
                            received[number],
                        )
                    )
    return found


def _at(stamps: Mapping[int, float], stamp: int) -> float | None:
    """The commit of that stamp, or of the next one: a commit has the stamp of its last group."""
    if stamp in stamps:
        return stamps[stamp]
    known = sorted(stamps)
    at = bisect_left(known, stamp)
    return stamps[known[at]] if at < len(known) else None


def shares(found: Sequence[Stations]) -> list[dict[str, Any]]:
    """Of each stage: mean, p50 and p99 in milliseconds, and its share of the mean of the whole."""
    times = np.array(found) * 1e3
    steps = np.diff(times, axis=1)
    whole = float((times[:, -1] - times[:, 0]).mean())
    return [
        {
            "stage": name,
            "holds": holds,
            "mean_ms": round(float(steps[:, at].mean()), 1),
            "p50_ms": round(float(np.percentile(steps[:, at], 50)), 1),
            "p99_ms": round(float(np.percentile(steps[:, at], 99)), 1),
            "share": round(float(steps[:, at].mean()) / whole, 3),
        }
        for at, (name, holds) in enumerate(STAGES)
    ]
