"""Rows that a predicate cannot judge are found, and those around them are judged as ever."""

from __future__ import annotations

import pyarrow as pa
import pytest

from consumer_service.polls import matching
from lakequeue.clock import boot_seconds
from queue_rules.predicates import evaluation
from queue_rules.predicates.expressions import Always, Condition
from queue_rules.predicates.parsing import parse

ROWS = pa.table({"offset": pa.array(range(100, 164), pa.int64())})


def fails_at(monkeypatch: pytest.MonkeyPatch, *offsets: int) -> None:
    def fragile(condition: Condition, rows: pa.Table) -> pa.Table:
        if set(offsets) & set(rows["offset"].to_pylist()):
            raise KeyError("nobody thought of it")
        return evaluation.matching(condition, rows)

    monkeypatch.setattr(matching, "matching", fragile)


@pytest.mark.parametrize("guilty", [[100], [163], [120, 121, 150], []])
def test_only_the_guilty_match_nothing(monkeypatch: pytest.MonkeyPatch, guilty: list[int]) -> None:
    fails_at(monkeypatch, *guilty)
    found, count, failed = matching.judge(parse("offset >= 110"), ROWS, boot_seconds() + 60)
    assert found["offset"].to_pylist() == [o for o in range(110, 164) if o not in guilty]
    assert count == 64
    assert [offset for offset, _ in failed] == guilty
    assert all(why == "KeyError: 'nobody thought of it'" for _, why in failed)


def test_when_all_fail_it_goes_on_by_one_record_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_at(monkeypatch, *range(100, 164))
    found, count, failed = matching.judge(Always(True), ROWS, boot_seconds() - 1)
    assert (found.num_rows, count) == (0, 1)
    assert [offset for offset, _ in failed] == [100]


def test_a_slow_predicate_looks_at_the_clock_between_parts_of_the_rows() -> None:
    """34 LIKEs over 8 MiB took 5 s in one look, where a look may take half a second."""
    count = 64
    values = pa.array([b"a" * 65_536] * count)
    rows = ROWS.append_column("value", values)
    slow = " OR ".join(f"value LIKE '%{'a' * 9}_{n}%'" for n in range(30))
    found, judged, failed = matching.judge(parse(slow), rows, boot_seconds() - 1)
    assert (found.num_rows, failed) == (0, [])
    assert 0 < judged <= count // 8
    for quick in ("offset >= 0", "value = 'a'"):
        assert matching.judge(parse(quick), rows, boot_seconds() - 1).rows == count


def test_rows_that_are_judged_in_parts_are_found_in_their_order() -> None:
    values = pa.array([b"a" * 65_536 + b"%d" % n for n in range(64)])
    rows = ROWS.append_column("value", values)
    some = " OR ".join(f"value LIKE '%a{n}'" for n in (5, 50, 61))
    found, judged, _ = matching.judge(parse(some), rows, boot_seconds() + 60)
    assert judged == 64
    assert found["offset"].to_pylist() == [105, 150, 161]
