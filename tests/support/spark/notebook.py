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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakequeue.calling.addresses import remove_addresses, write_addresses
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


def cells_of(path: Path) -> list[Cell]:
    """The cells. Pure but for the reading."""
    source = path.read_text()
    assert source.startswith(HEADER), f"{path} is no notebook"
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


def run(path: Path, spark: SparkSession) -> Page:
    """Run all cells. `spark` is the session that they find."""
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
    for cell in cells_of(path):
        if cell.is_markdown:
            page.append(cell.text)
            continue
        page.append(f"```python\n{cell.text}\n```")
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


@contextlib.contextmanager
def found(cluster: Cluster) -> Iterator[None]:
    """The notebooks find this queue, as they find that of `lakequeue up`: by its root."""
    root = cluster.options.root
    write_addresses(root, cluster.ingest_urls, cluster.consumer_urls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEQUEUE_ROOT", root)
        yield
    remove_addresses(root)


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
            with found(cluster):
                page = run(path, spark)
            note = f"*Written by `make notebooks` from [{path.name}](../../notebooks/{path.name}).*"
            (target / f"{path.stem}.md").write_text(f"{page.text}\n{note}\n")
            for name, plot in page.plots.items():
                (target / name).write_text(plot)
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
