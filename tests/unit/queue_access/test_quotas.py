"""Rates and their debts."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidRequest, OverQuota
from queue_access.quotas import (
    MOST_METERS,
    Meter,
    Meters,
    Quota,
    check_topics,
    checked_quota,
)
from queue_access.registry import NODES, Registry, entry_of_quota


def test_a_rate_lets_through_what_it_says_and_tells_how_long_to_wait() -> None:
    meter, taken, waited = Meter(), 0, []
    for hundredth in range(1_000):
        try:
            meter.take("requests", 10, 1, hundredth / 100)
        except OverQuota as error:
            waited.append(error.retry_after_s or 0)
        else:
            taken += 1
    assert 100 <= taken <= 111  # ten seconds, and what may be used at once
    assert all(0 < wait <= 0.11 for wait in waited)


def test_one_large_use_passes_and_is_paid_off() -> None:
    meter = Meter()
    meter.take("bytes", 100, 1_000, 0)
    with pytest.raises(OverQuota) as refused:
        meter.take("bytes", 100, 1, 0)
    assert refused.value.retry_after_s == pytest.approx(9.0)
    meter.take("bytes", 100, 1, 9.5)


def test_no_limit_is_no_limit() -> None:
    meter = Meter()
    for _ in range(10_000):
        meter.take("requests", None, 1, 0)


def test_so_many_principals_are_remembered_and_no_more() -> None:
    meters = Meters()
    first = meters.of("p0")
    for number in range(1, MOST_METERS + 1):
        meters.of(f"p{number}")
    assert meters.of("p0") is not first
    assert meters.of(f"p{MOST_METERS}") is meters.of(f"p{MOST_METERS}")


def test_limits_are_numbers_above_zero() -> None:
    assert checked_quota({"topics": 3}) == Quota(topics=3)
    for wrong in ({"topics": 0}, {"topics": -1}, {"topics": "3"}, {"topics": True}, {"apples": 1}):
        with pytest.raises(InvalidRequest):
            checked_quota(wrong)


def test_topics_and_partitions_are_counted_with_what_is_asked_for() -> None:
    quota = Quota(topics=2, partitions=10)
    check_topics(quota, {"a": 4, "b": 6})
    check_topics(Quota(), {"a": 3_000_000})
    with pytest.raises(OverQuota, match="11 partitions"):
        check_topics(quota, {"a": 4, "b": 7})
    with pytest.raises(OverQuota, match="3 topics"):
        check_topics(quota, {"a": 1, "b": 1, "c": 1})


def test_a_debt_is_told_without_a_change() -> None:
    meter = Meter()
    meter.owe("bytes read", 100, 600, 0)
    assert meter.owed_s("bytes read", 100, 1.0) == pytest.approx(4.0)
    assert meter.owed_s("bytes read", 100, 1.0) == pytest.approx(4.0)
    assert meter.owed_s("bytes read", 100, 6.0) == 0
    assert meter.owed_s("bytes read", None, 1.0) == meter.owed_s("bytes", 100, 1.0) == 0


def test_who_asks_for_a_debt_makes_no_meter() -> None:
    meters = Meters()
    assert meters.known("p") is None
    assert meters.known("p") is None
    assert meters.of("p") is meters.known("p")


def test_a_quota_of_all_others_does_not_hold_up_what_nodes_ask_each_other() -> None:
    registry = Registry([entry_of_quota("*", Quota(requests_per_s=1))])
    assert registry.quota_of("till") == Quota(requests_per_s=1)
    assert registry.quota_of(NODES) == Quota()
