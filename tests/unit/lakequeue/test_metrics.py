"""The declarations follow Prometheus' conventions."""

from __future__ import annotations

import re

import pytest

from lakequeue.metrics import ROLES
from lakequeue.metrics.declaring import Kind, Metric
from lakequeue.metrics.every import EVERY

DECLARED = [*EVERY, *(metric for declared in ROLES.values() for metric in declared)]
_UNITS = ("_seconds", "_bytes")
_RESERVED = {"job", "instance", "role", "le", "quantile"}
"""Labels that a Prometheus sets itself, or that our scrape configuration does."""


@pytest.mark.parametrize("metric", DECLARED, ids=lambda m: m.name)
def test_names_say_kind_and_unit(metric: Metric) -> None:
    assert re.fullmatch(r"lakequeue_[a-z_]+", metric.name)
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    assert not re.search(r"_(ms|millis|s|kb|mb)(_total)?$", metric.name)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.buckets == tuple(sorted(metric.buckets))
        assert metric.name.endswith(("_rows", *_UNITS))
    assert metric.doc
    assert metric.doc[0].islower() or metric.doc[0] == "1"


@pytest.mark.parametrize("metric", DECLARED, ids=lambda m: m.name)
def test_labels_do_not_collide_with_those_of_the_scrape(metric: Metric) -> None:
    assert not set(metric.labels) & _RESERVED


def test_one_name_is_one_metric() -> None:
    by_name: dict[str, Metric] = {}
    for metric in DECLARED:
        assert by_name.setdefault(metric.name, metric) is metric
