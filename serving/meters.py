"""The metrics of one process: counted by declaration, shown in Prometheus' text format.

Two ways to fill a metric: events are counted as they come (`count`, `observe`), and what is a
state is asked for when somebody looks (`on_scrape`), so that it costs nothing in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from lakequeue.errors import LakequeueError
from lakequeue.metrics.declaring import MOST_VALUES, OTHER, Kind, Metric, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Of each counter the time of its birth too: twice the series, and nobody asks.
disable_created_metrics()  # type: ignore[no-untyped-call]

log = structlog.get_logger("metrics")


Ask = Callable[[], Iterable[Sample]]
FORGOTTEN_AFTER_S = 3_600.0
"""A label's values of which nothing was heard for so long make room for new ones: groups come and
go, and those that are there now are of interest."""


class Meters:
    """A registry of its own, so that several nodes may live in one process. Thread-safe."""

    def __init__(
        self, declared: Iterable[Metric], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        self._declared = tuple(declared)
        self._lock = threading.Lock()
        self._counted: dict[Metric, Counter | Histogram] = {}
        self._values: dict[Metric, dict[tuple[str, ...], float]] = {}
        """Values of labels that have a series, and when they were counted last."""
        self._asked: list[Ask] = []
        self._answers: set[Metric] = set()
        ProcessCollector(registry=self._registry)
        self._registry.register(_OnScrape(self))

    def count(self, metric: Metric, by: float = 1.0, *labels: str) -> None:
        """`by` more."""
        found = self._instrument(metric)
        assert isinstance(found, Counter)  # noqa: S101 -- a counter is declared as one
        (found.labels(*self._bounded(metric, found, labels)) if labels else found).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """One more observation of a histogram."""
        found = self._instrument(metric)
        assert isinstance(found, Histogram)  # noqa: S101 -- as above
        (found.labels(*self._bounded(metric, found, labels)) if labels else found).observe(value)

    def on_scrape(self, ask: Ask, *metrics: Metric) -> None:
        """Let `ask` answer for `metrics` whenever somebody looks.

        What it raises is logged, and its metrics are then missing from that look: a value that
        is not known is not told.
        """
        with self._lock:
            self._asked.append(ask)
            self._answers |= set(metrics)

    def counts(self, *metrics: Metric) -> None:
        """These are counted here: they are shown as 0 before their first event."""
        for metric in metrics:
            self._instrument(metric)

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)

    def silent(self) -> set[Metric]:
        """What is declared and filled by nobody; a test has it empty."""
        with self._lock:
            return set(self._declared) - self._answers - set(self._counted)

    def _instrument(self, metric: Metric) -> Counter | Histogram:
        found = self._counted.get(metric)
        if found is not None:
            return found
        with self._lock:
            if metric not in self._counted:
                if metric not in self._declared:
                    raise ValueError(f"{metric.name} is not declared for this process")
                self._counted[metric] = _made(metric, self._registry)
            return self._counted[metric]

    def _bounded(
        self, metric: Metric, found: Counter | Histogram, labels: tuple[str, ...]
    ) -> tuple[str, ...]:
        with self._lock:
            known, now = self._values.setdefault(metric, {}), self._clock()
            if labels not in known and len(known) >= MOST_VALUES:
                oldest = min(known, key=lambda one: known[one])
                if known[oldest] > now - FORGOTTEN_AFTER_S:
                    return (OTHER,) * len(labels)
                del known[oldest]
                found.remove(*oldest)
            known[labels] = now
        return labels

    def asked(self) -> dict[Metric, dict[tuple[str, ...], Sample]]:
        """What all that are asked answer now."""
        with self._lock:
            asked = list(self._asked)
            found: dict[Metric, dict[tuple[str, ...], Sample]] = {m: {} for m in self._answers}
        for ask in asked:
            try:
                for sample in ask():
                    found[sample.metric][sample.labels] = sample
            except LakequeueError as error:
                # One source that is away (ZooKeeper, storage) must not hide the others.
                log.info("meters.failed", why=error.detail)
            except Exception:
                log.exception("meters.failed")
        return found


class _OnScrape(Collector):
    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    def describe(self) -> Iterable[Family]:
        """Nothing: else registering would ask."""
        return []

    def collect(self) -> Iterator[Family]:
        """One family a metric."""
        for metric, samples in self._meters.asked().items():
            yield _family(metric, bounded(samples.values()))


def bounded(samples: Iterable[Sample]) -> list[Sample]:
    """The `MOST_VALUES` highest of one metric's samples, and the sum of the others. Pure."""
    ranked = sorted(samples, key=lambda sample: sample.value, reverse=True)
    kept, rest = ranked[:MOST_VALUES], ranked[MOST_VALUES:]
    if rest:
        labels = (OTHER,) * len(rest[0].labels)
        times = sum(s.times for s in rest)
        kept.append(Sample(rest[0].metric, sum(s.value for s in rest), labels, times))
    return kept


def _made(metric: Metric, registry: CollectorRegistry) -> Counter | Histogram:
    if metric.kind is Kind.COUNTER:
        counter = Counter(metric.name, metric.doc, metric.labels, registry=registry)
        for labels in metric.known:
            counter.labels(*labels)
        return counter
    if metric.kind is Kind.HISTOGRAM:
        return Histogram(
            metric.name, metric.doc, metric.labels, buckets=metric.buckets, registry=registry
        )
    raise ValueError(f"{metric.name} is a {metric.kind}: it is asked for, not counted")


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    if metric.kind is Kind.SUMMARY:
        summary = SummaryMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for sample in samples:
            summary.add_metric(sample.labels, int(sample.times), sample.value)
        return summary
    make = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = make(metric.name, metric.doc, labels=metric.labels)
    for sample in samples:
        family.add_metric(sample.labels, sample.value)
    return family
