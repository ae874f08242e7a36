"""The page docs/benchmarks/shapes.md, and its curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench import machine
from bench.figures import rows_of
from bench.peers.plots import save

FLAT = 1.25
"""As many times its first point may the curve of p50 reach."""
FULL = 0.9
"""Cores of a node, from which on its one core is full: it is one Python process."""
PLAIN = (1, 8)
"""Topics, and partitions of each, that others are compared with end to end."""
_WHOLE = (
    ("acknowledged_p50_ms", "acknowledged p50"),
    ("acknowledged_p99_ms", "p99"),
    ("received_p50_ms", "received p50"),
    ("received_p99_ms", "p99"),
)
_MEASURES = (("p50_ms", "p50"), ("p99_ms", "p99"), ("node_cpu", "CPU"))
GROUPS_OF_NODES = 300
"""So many that the core of one node is full, along `nodes`."""
_AXES = {
    "partitions": ("partitions of one topic", "500 deliveries/s"),
    "topics": ("topics of one partition", "500 deliveries/s"),
    "groups": ("groups that all read 8 partitions", "10,000 deliveries/s"),
    "idle_polls": ("polls that wait for nothing", "500 deliveries/s beside them"),
    "records": ("records in the log before the node starts", "500 deliveries/s"),
    "refused": (
        "members whose acks are all refused (409), 64 partitions",
        "500 deliveries/s",
    ),
    "nodes": (f"nodes on the machine, for {GROUPS_OF_NODES} groups", "10,000 deliveries/s"),
}


def write(results: Mapping[str, Any], folder: Path) -> None:
    """Write shapes.md and shapes.svg of a run of `make bench-shapes`."""
    (folder / "shapes.md").write_text(page(results))
    save(_curves(results), folder / "shapes.svg")


def page(results: Mapping[str, Any]) -> str:
    """Markdown."""
    where = results["machine"]
    lines = [
        "# Shapes: more of one thing, at the same deliveries a second",
        "",
        f"Written by `make bench-shapes` on {where['measured_at'][:10]}. {machine.sentence(where)}",
        "",
        "One consumer-service node, fed with ten commits of `log` a second; records have 1 kB. All "
        "members of all groups are one more process on the same cores. *p50* and *p99* are from "
        "the commit to the member; *CPU* is cores of the busiest node; *ready* is from the start "
        "of the process. Beside each figure stands how many times the first row's it is. "
        f"{results['seconds']:.0f} seconds a row; each figure is the median of "
        f"{results['rounds']} rounds.",
        "",
        f"**Flat**: p50 is at most {FLAT} times that of the first row. *full*: the node's core is "
        f"full (above {FULL}), and records wait for it.",
        "",
        "![Curves](shapes.svg)",
        "",
    ]
    for axis, rows in _by_axis(results).items():
        title, rate = _AXES[axis]
        lines += [f"## {title[0].upper()}{title[1:]}, {rate}", ""]
        head = [
            axis.replace("_", " "),
            "p50 ms",
            "p99 ms",
            "CPU",
            "µs of CPU a delivery",
            "ready s",
            "",
        ]
        lines += rows_of(head, [_cells(axis, row, rows[0]) for row in rows])
    return "\n".join(lines + _whole(results.get("whole", [])))


def _whole(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    first = next(row for row in rows if (row["topics"], row["partitions"]) == PLAIN)

    def cell(row: Mapping[str, Any], name: str) -> str:
        return f"{row[name]:.0f} ({row[name] / first[name]:.2f} ×)"

    return [
        "## End to end, 500 records/s",
        "",
        "The whole queue, with Spark, one producer and one consumer of the SDK; started anew for "
        "each row. Milliseconds from the send.",
        "",
        *rows_of(
            ["topics", "partitions of each", *(title for _, title in _WHOLE)],
            [
                [
                    f"{row['topics']:,}",
                    f"{row['partitions']:,}",
                    *(cell(row, name) for name, _ in _WHOLE),
                ]
                for row in rows
            ],
        ),
    ]


def _by_axis(results: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in results["rows"]:
        if row["which"] == "now":
            found.setdefault(row["axis"], []).append(row)
    return found


def _cells(axis: str, row: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    def beside(name: str, digits: int) -> str:
        return f"{row[name]:,.{digits}f} ({row[name] / first[name]:.2f} ×)"

    return [
        f"{row[axis]:,}",
        beside("p50_ms", 0),
        beside("p99_ms", 0),
        beside("node_cpu", 2),
        f"{row['node_us_a_delivery']:,.0f}",
        beside("ready_s", 1),
        verdict(row, first),
    ]


def verdict(row: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """In a word."""
    if row is first or row["axis"] == "nodes":
        return ""
    if row["node_cpu"] >= FULL:
        return "full"
    return "**flat**" if row["p50_ms"] <= FLAT * first["p50_ms"] else ""


def _curves(results: Mapping[str, Any]) -> Figure:
    found = {axis: rows for axis, rows in _by_axis(results).items() if len(rows) > 1}
    figure = Figure(figsize=(9, 3 * -(-len(found) // 2)), layout="constrained")
    for number, (axis, rows) in enumerate(found.items()):
        axes = figure.add_subplot(-(-len(found) // 2), 2, number + 1)
        axes.set_title(_AXES[axis][0], loc="left", fontsize=10)
        places = range(len(rows))
        axes.set_xticks(places, [f"{row[axis]:,}" for row in rows])
        axes.set_yscale("log")
        axes.axhspan(1 / FLAT, FLAT, color="#2f6db5", alpha=0.12)
        for name, label in _MEASURES:
            axes.plot(places, _times(rows, name), marker="o", markersize=3, label=label)
        axes.set_ylabel("times the first")
        axes.legend(fontsize=7)
    return figure


def _times(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [row[name] / rows[0][name] for row in rows]
