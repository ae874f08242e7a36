"""Each alert has a page that says what to do, and the pages speak of what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakequeue.metrics import ROLES
from lakequeue.metrics.every import EVERY
from lakequeue.settings import meanings

REPOSITORY = Path(__file__).parents[3]
RUNBOOKS = REPOSITORY / "docs" / "runbooks"
PAGES = sorted(path for path in RUNBOOKS.glob("*.md") if path.name != "README.md")
HEADINGS = ["What it means", "What to look at", "What to do", "How to know that it is over"]
METRICS = {metric.name for declared in (EVERY, *ROLES.values()) for metric in declared}
LOGGED = "".join(
    path.read_text()
    for package in ("jobs", "serving")
    for path in REPOSITORY.glob(f"{package}/**/*.py")
)
"""Where the events of the log are named."""
SECTIONS = {name.partition(".")[0] for name in meanings() if "." in name}


def alerts() -> dict[str, dict[str, Any]]:
    rules = yaml.safe_load((REPOSITORY / "deploy/prometheus/alerts.yml").read_text())
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


@pytest.mark.parametrize("name", alerts())
def test_the_runbook_of_an_alert_is_there(name: str) -> None:
    named = alerts()[name]["annotations"]["runbook_url"]
    assert REPOSITORY / named == RUNBOOKS / f"{name}.md"
    assert (REPOSITORY / named).exists()
    assert f"]({name}.md)" in (RUNBOOKS / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_has_its_four_parts_and_names_what_exists(page: Path) -> None:
    text = page.read_text()
    assert page.stem in alerts()
    assert re.findall(r"^# (.*)$", text, re.M) == [page.stem]
    assert re.findall(r"^## (.*)$", text, re.M) == HEADINGS
    for part in re.split(r"^## .*$", text, flags=re.M)[1:]:
        assert part.strip()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (page.parent / link).exists(), link
    for document in re.findall(r"\bdocs/[\w./-]+\.md", text):
        assert (REPOSITORY / document).exists(), document
    flat = " ".join(text.split())
    for metric in re.findall(r"\blakequeue_\w+", flat):
        assert re.sub(r"_(bucket|sum|count)$", "", metric) in METRICS, metric
    for setting in re.findall(r"`(\w+\.\w+)`", flat):
        if setting.partition(".")[0] in SECTIONS:
            assert setting in meanings() or f'"{setting}"' in LOGGED, setting
