"""Notebooks in Databricks source format: their cells, run in this process, and what they show.

    python -m tests.support.spark.notebook docs/notebooks [quick_start …]

starts a queue and a Spark session, runs `notebooks/`, or those named, and writes one page for each.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from lakequeue.processes.java import find_java
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from tests.support.spark.spark_session import start_spark

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
HEADER = "# Databricks notebook source\n"
CELL = "# COMMAND ----------"
MAGIC = "# MAGIC "


class Cell(NamedTuple):
    """Markdown, or Python."""

    text: str
    is_markdown: bool


def cells_of(path: Path, replaced: Mapping[str, str]) -> list[Cell]:
    """The cells; each line in `replaced` stands once, and is changed. Pure but for the reading."""
    source = path.read_text()
    assert source.startswith(HEADER), f"{path} is no notebook"
    for line, changed in replaced.items():
        assert source.count(f"{line}\n") == 1, f"{path} has not one line {line}"
        source = source.replace(f"{line}\n", f"{changed}\n")
    cells = []
    for part in source.removeprefix(HEADER).split(CELL):
        text = part.strip("\n")
        if text.startswith(f"{MAGIC}%md"):
            lines = [line.removeprefix("# MAGIC").removeprefix(" ") for line in text.splitlines()]
            cells.append(Cell("\n".join(lines[1:]), True))
        else:
            cells.append(Cell(text, False))
    return cells


class Page(NamedTuple):
    """What a notebook showed."""

    text: str
    """Markdown: the cells, and after each what it showed."""
    plots: dict[str, str]
    """SVG by file name, as the text names them."""


def run(path: Path, spark: SparkSession, replaced: Mapping[str, str]) -> Page:
    """Run all cells."""
    page: list[str] = []
    plots: dict[str, str] = {}
    out = io.StringIO()

    def display(what: Any) -> None:
        if isinstance(what, DataFrame):
            table = [what.columns, ["---"] * len(what.columns), *what.collect()]
            # A table that follows another without a blank line would be more rows of that one.
            out.write("\n" + "".join(f"| {' | '.join(map(str, row))} |\n" for row in table))
        else:
            name = f"{path.stem}-{len(plots) + 1}.svg"
            plots[name] = _svg(what)
            out.write(f"![{name}]({name})\n")

    names = {"spark": spark, "display": display, "__name__": "notebook"}
    shown = cells_of(path, {})
    for cell, as_written in zip(cells_of(path, replaced), shown, strict=True):
        if cell.is_markdown:
            page.append(cell.text)
            continue
        page.append(f"```python\n{as_written.text}\n```")
        with contextlib.redirect_stdout(out):
            exec(compile(cell.text, str(path), "exec"), names)  # noqa: S102 -- a notebook is run
        if text := out.getvalue().strip():
            page.append(text if text.startswith(("|", "![")) else f"```text\n{text}\n```")
        out.seek(0)
        out.truncate()
    return Page("\n\n".join(page) + "\n", plots)


def _svg(figure: Any) -> str:
    """A matplotlib figure, small: text stays text, and nothing in it tells when it was drawn."""
    import matplotlib as mpl

    drawn = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lakequeue"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines()) + "\n"


def at(cluster: Cluster) -> dict[str, str]:
    """The three lines of a notebook that say where the queue is."""
    return {
        'ROOT = "lakequeue-data"': f"ROOT = {cluster.options.root!r}",
        'INGEST = "http://127.0.0.1:8080"': f"INGEST = {cluster.ingest_urls[0]!r}",
        'CONSUMER = "http://127.0.0.1:8081"': f"CONSUMER = {cluster.consumer_urls[0]!r}",
    }


def main() -> int:
    """Write the pages."""
    target, chosen = Path(sys.argv[1]), sys.argv[2:]
    os.environ["JAVA_HOME"] = str(find_java().home)
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(ClusterOptions(root=f"{folder}/queue")) as cluster,
    ):
        cluster.wait_ready()
        spark = start_spark(Path(folder))
        target.mkdir(parents=True, exist_ok=True)
        for path in sorted(NOTEBOOKS.glob("*.py")):
            if chosen and path.stem not in chosen:
                continue
            page = run(path, spark, at(cluster))
            note = f"*Written by `make notebooks` from [{path.name}](../../notebooks/{path.name}).*"
            (target / f"{path.stem}.md").write_text(f"{page.text}\n{note}\n")
            for name, plot in page.plots.items():
                (target / name).write_text(plot)
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
