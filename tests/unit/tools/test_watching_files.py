"""Dashboard, alerts and scrape configuration speak of metrics that are declared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from lakequeue.metrics import ROLES
from lakequeue.metrics.declaring import Kind
from lakequeue.metrics.every import EVERY
from tools.dashboard import dashboard_json, queries

DEPLOY = Path(__file__).parents[3] / "deploy"
_SUFFIXES = {
    Kind.HISTOGRAM: ("_bucket", "_sum", "_count"),
    Kind.SUMMARY: ("_sum", "_count"),
    Kind.COUNTER: ("",),
    Kind.GAUGE: ("",),
}
SERIES = {
    metric.name + suffix
    for metric in [*EVERY, *(m for declared in ROLES.values() for m in declared)]
    for suffix in _SUFFIXES[metric.kind]
}


def named(query: str) -> set[str]:
    """The series of ours that a query asks for."""
    return set(re.findall(r"\blakequeue_\w+", query))


def alert_queries() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("query", [*queries(), *alert_queries()])
def test_a_query_asks_for_declared_series_alone(query: str) -> None:
    assert named(query) <= SERIES
    assert named(query) or "process_" in query or query.startswith("up")


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for q in queries() for name in named(q)}
    declared = {re.sub(r"_(bucket|sum|count)$", "", name) for name in SERIES}
    assert declared - shown == set()


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(dashboard_json())["panels"]:
        at = panel["gridPos"]
        places = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & places
        assert at["x"] + at["w"] <= 24
        taken |= places
