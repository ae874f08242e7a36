"""The README on the queue of this folder, and the tutorial on one that `lakequeue up` runs."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakequeue_cli.supervisor.cluster import Cluster
from tests.e2e.test_up import banner, up
from tests.support.documents.blocks import REPOSITORY, blocks_of
from tests.support.documents.pages import PAGES
from tests.support.documents.running import Reader, reader_at, run_page
from tests.support.spark.notebook import found

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
ROW = 'customer-4│{"id":17,"total":99.5}'


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """Somebody who has the root of a queue that runs."""
    with found(cluster):
        yield reader_at(Path(cluster.options.root), tmp_path)


@pytest.fixture
def beginner(tmp_path: Path) -> Iterator[Reader]:
    """Somebody in the folder in which `lakequeue up` was started."""
    root = tmp_path / "lakequeue-data"
    with up(root, 0, 0) as queue:
        banner(queue)
        yield reader_at(root, tmp_path)


def run(reader: Reader, program: str, until: str) -> str:
    """Run it until it prints `until`; one that goes on for ever is interrupted then. What it
    has printed."""
    with (reader.folder / "program.err").open("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", program],
            cwd=reader.folder,
            env=reader.environment,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(re.sub(r"\s*[│|]\s*", "│", line))
                if until in said[-1]:
                    return "".join(said)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        err.seek(0)
        raise AssertionError("".join(said) + err.read()[-4_000:])


def test_the_readme(reader: Reader) -> None:
    blocks = blocks_of(REPOSITORY / "README.md")
    run_page(reader, [block for block in blocks if block.language != "python"])
    consume, spark, duck = (block.text for block in blocks if block.language == "python")
    run(reader, consume, "customer-4 {'id': 17, 'total': 99.5}")
    run(reader, duck, ROW)
    # The SQL of other pages in the same session: a second one would cost half a minute.
    statements = [
        statement
        for page in PAGES
        for block in blocks_of(REPOSITORY / page)
        if block.language == "sql"
        for statement in block.text.split(";")
        if statement.strip()
    ]
    assert len(statements) == 3
    also = f"spark.sql('USE queue')\nfor one in {statements!r}:\n    spark.sql(one).collect()"
    assert ROW in run(reader, f"{spark}\n{also}\nprint('every SQL is run')", "every SQL is run")


@pytest.mark.faults
def test_the_tutorial(beginner: Reader) -> None:
    run_page(beginner, blocks_of(REPOSITORY / "docs" / "tutorial.md"))
