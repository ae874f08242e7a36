"""The metrics of a process: declared, bounded, asked for when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from lakequeue import metrics
from lakequeue.errors import StorageUnavailable
from lakequeue.metrics import MOST_VALUES, OTHER, Sample
from serving.meters import Meters, bounded


def shown(meters: Meters) -> dict[tuple[str, str], float]:
    """(name, first label or "") → value."""
    text = meters.text().decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_counted_is_shown_and_starts_at_nothing() -> None:
    meters = Meters(metrics.INGEST)
    meters.counts(metrics.INGEST_RECORDS)
    assert shown(meters)["lakequeue_ingest_records_total", ""] == 0
    meters.count(metrics.INGEST_RECORDS, 3)
    meters.count(metrics.INGEST_REQUESTS, 1, "ok")
    meters.observe(metrics.INGEST_COMMIT_S, 0.3, "all")
    found = shown(meters)
    assert found["lakequeue_ingest_records_total", ""] == 3
    assert found["lakequeue_ingest_requests_total", "ok"] == 1
    assert found["lakequeue_ingest_commit_seconds_count", "all"] == 1


def test_what_is_not_declared_for_the_process_is_refused() -> None:
    with pytest.raises(ValueError, match="lakequeue_order_records_total is not declared"):
        Meters(metrics.INGEST).count(metrics.ORDER_RECORDS, 1, "ordered")


def test_labels_that_users_choose_are_bounded() -> None:
    meters = Meters(metrics.CONSUMER)
    for n in range(MOST_VALUES + 50):
        meters.count(metrics.DELIVERED_RECORDS, 1, f"group-{n}")
    meters.count(metrics.DELIVERED_RECORDS, 1, "group-0")
    found = {
        label: value
        for (name, label), value in shown(meters).items()
        if name == "lakequeue_consumer_delivered_records_total"
    }
    assert len(found) == MOST_VALUES + 1
    assert (found["group-0"], found[OTHER]) == (2, 50)


def test_of_too_many_samples_the_highest_stay_and_the_rest_is_summed() -> None:
    made = [Sample(metrics.GROUP_LAG, n, (f"g{n}", "t")) for n in range(MOST_VALUES + 3)]
    kept = bounded(made)
    assert len(kept) == MOST_VALUES + 1
    assert kept[0].labels == (f"g{MOST_VALUES + 2}", "t")
    assert kept[-1] == Sample(metrics.GROUP_LAG, 0 + 1 + 2, (OTHER, OTHER))


def test_a_source_that_is_away_takes_only_its_own_metrics_with_it() -> None:
    meters = Meters(metrics.EVERY)

    def away() -> Iterator[Sample]:
        yield Sample(metrics.STORAGE_READ, 7)
        raise StorageUnavailable("no disk")

    meters.on_scrape(away, metrics.STORAGE_READ, metrics.STORAGE_WRITTEN)
    meters.on_scrape(lambda: [Sample(metrics.READY, 1)], metrics.READY)
    structlog.reset_defaults()  # whatever level another test has set
    with capture_logs() as said:
        found = shown(meters)
    assert [(line["event"], line["why"]) for line in said] == [("not_measured", "no disk")]
    assert found["lakequeue_ready", ""] == 1
    assert found["lakequeue_storage_read_bytes_total", ""] == 7
    assert ("lakequeue_storage_written_bytes_total", "") not in found


def test_a_summary_shows_how_often_and_how_long() -> None:
    meters = Meters(metrics.EVERY)
    sample = Sample(metrics.STORAGE_SECONDS, 1.5, ("get",), 6)
    meters.on_scrape(lambda: [sample], metrics.STORAGE_SECONDS)
    found = shown(meters)
    assert found["lakequeue_storage_request_seconds_sum", "get"] == 1.5
    assert found["lakequeue_storage_request_seconds_count", "get"] == 6


def test_what_nobody_fills_is_named() -> None:
    meters = Meters((metrics.READY, metrics.INGEST_RECORDS))
    meters.counts(metrics.INGEST_RECORDS)
    assert meters.silent() == {metrics.READY}
