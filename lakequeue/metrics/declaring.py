"""What a metric is, and how it is declared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MOST_VALUES = 200
OTHER = "_other"

FAST_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
ROWS = (1, 10, 100, 1_000, 10_000, 100_000)


class Kind(StrEnum):
    """Prometheus' types."""

    COUNTER = "counter"
    """Rises from 0 at the start of the process; its name ends in `_total`."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    """Count and sum, without quantiles: of what is too frequent for buckets."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One declaration."""

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()
    """Values of its labels that are shown as 0 before the first event: an increase from nothing to
    100 is none to a Prometheus, so an alert would miss the first one."""


class Sample(NamedTuple):
    """A value at the time it was asked for. `times`: of a summary, whose `value` is the sum."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()
    times: float = 0.0


def counter(name: str, doc: str, *labels: str, known: tuple[tuple[str, ...], ...] = ()) -> Metric:
    return Metric(f"lakequeue_{name}", Kind.COUNTER, doc, labels, known=known)


def gauge(name: str, doc: str, *labels: str) -> Metric:
    return Metric(f"lakequeue_{name}", Kind.GAUGE, doc, labels)


def histogram(name: str, doc: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(f"lakequeue_{name}", Kind.HISTOGRAM, doc, labels, buckets)
