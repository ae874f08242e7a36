"""What the page of `make bench-shapes` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.http.shapes_page import verdict, write
from bench.machine import Machine

MACHINE: Machine = {
    "measured_at": "2026-11-30T09:00:00+00:00",
    "cores": 2,
    "memory_gib": 24.0,
    "kernel": "6.1",
    "python": "3.11.7",
    "versions": {},
    "speed": {
        "loop_s": 0.1,
        "fdatasync_p50_ms": 0.1,
        "fdatasync_p99_ms": 0.2,
        "copy_gb_per_s": 20.0,
        "load": 0.1,
    },
}


def row(axis: str, much: int, p50: float, cpu: float, which: str = "now") -> dict[str, Any]:
    return {
        "axis": axis,
        axis: much,
        "which": which,
        "p50_ms": p50,
        "p99_ms": 2 * p50,
        "node_cpu": cpu,
        "node_us_a_delivery": 100.0,
        "ready_s": 0.8,
    }


@pytest.mark.parametrize(
    ("p50", "cpu", "said"),
    [(12.5, 0.8, "**flat**"), (12.6, 0.4, ""), (99.0, 0.95, "full")],
)
def test_a_row_is_flat_within_a_quarter_until_the_core_is_full(
    p50: float, cpu: float, said: str
) -> None:
    assert verdict(row("groups", 20, p50, cpu), row("groups", 1, 10.0, 0.4)) == said


def test_the_page_has_a_table_for_each_axis_and_the_curves(tmp_path: Path) -> None:
    rows = [
        row("groups", 1, 10.0, 0.1),
        row("groups", 1, 99.0, 0.9, which="before"),
        row("groups", 500, 300.0, 1.1),
        row("nodes", 1, 10.0, 0.6),
        row("nodes", 2, 9.0, 0.3),
    ]
    write({"machine": MACHINE, "seconds": 5.0, "rounds": 3, "rows": rows}, tmp_path)
    page = (tmp_path / "shapes.md").read_text()
    assert (
        "| 500 | 300 (30.00 ×) | 600 (30.00 ×) | 1.10 (11.00 ×) | 100 | 0.8 (1.00 ×) | full |"
        in page
    )
    assert "| 2 | 9 (0.90 ×) | 18 (0.90 ×) | 0.30 (0.50 ×) | 100 | 0.8 (1.00 ×) |  |" in page
    assert "99 (" not in page
    assert "groups that all read" in (tmp_path / "shapes.svg").read_text()


def test_end_to_end_is_beside_the_plain_shape(tmp_path: Path) -> None:
    names = [
        f"{what}_{part}_ms" for what in ("acknowledged", "received") for part in ("p50", "p99")
    ]
    whole = [
        {"topics": topics, "partitions": partitions} | dict.fromkeys(names, ms)
        for topics, partitions, ms in ((1, 1, 45.0), (1, 8, 50.0), (100, 1, 60.0))
    ]
    about = {"machine": MACHINE, "seconds": 5.0, "rounds": 3}
    write(about | {"rows": [row("groups", 1, 10.0, 0.1)], "whole": whole}, tmp_path)
    page = (tmp_path / "shapes.md").read_text()
    assert "| 1 | 8 | 50 (1.00 ×) | 50 (1.00 ×) | 50 (1.00 ×) | 50 (1.00 ×) |" in page
    assert "| 100 | 1 | 60 (1.20 ×) |" in page
