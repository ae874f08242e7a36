"""The notebooks run from top to end on a real queue; what they claim they assert themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakequeue_cli.supervisor.cluster import Cluster
from tests.support.kinds import one_now
from tests.support.spark.notebook import NOTEBOOKS, found, run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
PAGES = Path(__file__).parents[2] / "docs" / "notebooks"


@pytest.mark.parametrize(
    "path",
    one_now(sorted(NOTEBOOKS.glob("*.py")), NOTEBOOKS / "quick_start.py"),
    ids=lambda path: path.stem,
)
def test_a_notebook_runs_and_its_page_shows_this_source(
    path: Path, spark: SparkSession, cluster: Cluster
) -> None:
    with found(cluster):
        page = run(path, spark)
    cells = [part for part in page.text.split("```") if part.startswith("python\n")]
    written = (PAGES / f"{path.stem}.md").read_text()
    assert cells
    assert [cell for cell in cells if cell not in written] == [], "run `make notebooks`"
    assert [name for name in page.plots if not (PAGES / name).is_file()] == []
