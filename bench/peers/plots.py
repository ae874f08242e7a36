"""The plots of a run, as SVG. Latencies differ a thousandfold: their scale is logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.figures import Spread
from bench.peers.report import LATENCIES, Results, fast, latency, spread_of
from bench.peers.systems.system import SIZES

_COLOURS = {"acked": "#9db7d5", "consumer": "#2f6db5", "sql": "#e08a2e"}


def draw(results: Results, folder: Path) -> None:
    """Write peers-latency-SIZE.svg and peers-throughput-SIZE.svg."""
    for size in SIZES:
        save(_latencies(results, size), folder / f"peers-latency-{size}.svg")
        save(_throughput(results, size), folder / f"peers-throughput-{size}.svg")


def save(figure: Figure, path: Path) -> None:
    """As SVG. Text stays text, and nothing tells when it was drawn."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lakequeue"}):
        figure.savefig(path, metadata={"Date": None})


def _frame(results: Results, title: str, unit: str) -> tuple[Figure, list[str]]:
    names = list(results["systems"])
    figure = Figure(figsize=(9, 0.9 + 0.55 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(unit)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", which="major", alpha=0.3)
    axes.set_axisbelow(True)
    return figure, names


def _bar(figure: Figure, at: float, found: Spread, colour: str, label: str) -> None:
    axes = figure.axes[0]
    axes.barh(at, found.median, 0.25, color=colour, label=label)
    axes.plot([found.least, found.most], [at, at], color="#333333", linewidth=1)


def _labels(figure: Figure) -> None:
    axes = figure.axes[0]
    handles, labels = axes.get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    axes.legend(by_label.values(), by_label.keys(), fontsize=8, loc="best")


def _latencies(results: Results, size: int) -> Figure:
    """Bars end at p99; a dot is p50."""
    title = f"1,000 records/s of {size:,} B: p99 (dot: p50)"
    figure, names = _frame(results, title, "milliseconds")
    figure.axes[0].set_xscale("log")
    figure.axes[0].set_xlim(left=0.1)
    for row, name in enumerate(names):
        found = results["systems"][name]
        for number, (what, label) in enumerate(LATENCIES):
            p99 = spread_of(found, latency(size, what, "p99"))
            p50 = spread_of(found, latency(size, what, "p50"))
            if p99 is not None and p50 is not None:
                at = row + (number - 1) * 0.27
                _bar(figure, at, p99, _COLOURS[what], label)
                figure.axes[0].plot(p50.median, at, "o", color="black", markersize=3)
    _labels(figure)
    return figure


def _throughput(results: Results, size: int) -> Figure:
    figure, names = _frame(results, f"As fast as it goes, {size:,} B", "records/s")
    bars: Sequence[tuple[str, str, str]] = (
        ("acked_per_s", "acknowledged", "acked"),
        ("through_per_s", "through to the consumer (or the table)", "consumer"),
    )
    for row, name in enumerate(names):
        for number, (key, label, colour) in enumerate(bars):
            rate = spread_of(results["systems"][name], fast(size, key))
            if rate is not None:
                _bar(figure, row + (number - 0.5) * 0.3, rate, _COLOURS[colour], label)
    _labels(figure)
    return figure
