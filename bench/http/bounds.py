"""What the front has to keep to while clients hold it up. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HEALTH_MS = 100.0
SLOWER = 2.0
"""Sends and acks of others, beside what they took without the clients."""
POLL_BYTES = 20_000
"""Of each poll that waits."""
FASTER, LESS_CPU = 4.0, 0.5
"""Single sends, beside the server before the front in the same run."""


def broken(row: Mapping[str, Any]) -> list[str]:
    """Which bounds a row of `held_up` breaks."""
    faults = [*_calls_that_failed(row), *_slow_calls(row), *_others(row)]
    return [f"{row['node']}, {row['kind']}: {fault}" for fault in faults]


def _calls_that_failed(row: Mapping[str, Any]) -> Iterator[str]:
    for window in ("without", "with", "after"):
        for call in ("health", "sends", "acks"):
            if failures := row[window].get(call, {}).get("failures"):
                yield f"{failures} calls failed ({call}, {window})"


def _slow_calls(row: Mapping[str, Any]) -> Iterator[str]:
    for window in ("with", "after"):
        if (took := row[window]["health"]["p99_ms"]) > HEALTH_MS:
            yield f"health took {took} ms {window} (p99), at most {HEALTH_MS}"
        for call in {"sends", "acks"} & row[window].keys():
            most = SLOWER * row["without"][call]["p99_ms"]
            if (took := row[window][call]["p99_ms"]) > most:
                yield f"{call} took {took} ms {window} (p99), at most {most:.1f}"


def _others(row: Mapping[str, Any]) -> Iterator[str]:
    if row["kind"] == "polls" and row["kib_each"] * 1_024 > POLL_BYTES:
        yield f"a poll takes {row['kib_each']} KiB, at most {POLL_BYTES} bytes"
    for name in ("lost", "twice", "out_of_turn"):
        if row["kept"].get(name):
            yield f"{row['kept'][name]} records {name}"


def broken_speeds(found: Mapping[str, Sequence[Any]]) -> list[str]:
    """Which bounds single sends break; [] also if the server before was not measured."""
    faults = []
    for before, now in zip(found.get("before", ()), found.get("now", ()), strict=False):
        if now["per_s"] < FASTER * before["per_s"]:
            faults.append(f"{now['per_s']} sends/s, at least {FASTER} × {before['per_s']}")
        if now["cpu_us"] > LESS_CPU * before["cpu_us"]:
            faults.append(f"{now['cpu_us']} µs a send, at most {LESS_CPU} × {before['cpu_us']}")
    return faults
