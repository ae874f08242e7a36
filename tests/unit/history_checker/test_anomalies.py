"""Each anomaly is caught in at least two small histories, and in none that is only near it."""

from __future__ import annotations

import pytest

from history_checker import Anomaly, check
from tests.support.histories.small_histories import Cases
from tests.support.histories.small_log_histories import LOG_CASES
from tests.support.histories.small_queue_histories import QUEUE_CASES
from tests.support.histories.small_stream_histories import STREAM_CASES
from tests.support.histories.small_table_histories import EFFECT_CASES, LIVENESS_CASES, TABLE_CASES

CASES: list[tuple[Anomaly, Cases]] = [
    case
    for table in (
        LOG_CASES,
        STREAM_CASES,
        QUEUE_CASES,
        EFFECT_CASES,
        TABLE_CASES,
        LIVENESS_CASES,
    )
    for case in table.items()
]


@pytest.mark.parametrize(("anomaly", "cases"), CASES, ids=lambda x: str(x)[:30])
def test_it_is_caught_and_what_is_near_it_is_not(anomaly: Anomaly, cases: Cases) -> None:
    assert min(len(cases.bad), len(cases.good)) >= 2
    for bad in cases.bad:
        assert anomaly in check(bad, cases.requirements).anomalies, bad
    for good in cases.good:
        verdict = check(good, cases.requirements)
        assert verdict.ok, f"{verdict}\n{good}"


def test_every_anomaly_has_its_histories() -> None:
    assert {anomaly for anomaly, _ in CASES} == set(Anomaly)
