"""No row of a journal shard or of `group_offsets` stops a fold, whatever it holds."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lakequeue.records import ShardName
from queue_tables.groups import fact_rows
from queue_tables.groups.fact_checks import SetAside
from queue_tables.groups.fact_rows import news_from_arrow, states_from_arrow, states_to_arrow
from queue_tables.groups.facts import GroupState, States, fold_news
from queue_tables.groups.state import fences_in
from queue_tables.schema.schemas import GROUP_OFFSETS, JOURNAL
from tests.support.data.hostile_rows import Hostile, hostile_rows, sound_rows

SHARD = ShardName("a-1")
KINDS = ["taken", "committed", "parked", "acked", "dead"]
"""One of each way that facts are folded."""


def good(kind: str) -> dict[str, object]:
    return {"kind": kind, "mode": "queue", "options": "{}", "group": "g", "offset": 3}


def folded(table: pa.Table, aside: list[SetAside] | None = None) -> States:
    """Folded, and as a node reads it from the table."""
    states = fold_news({}, news_from_arrow(table, SHARD, aside))
    assert states_from_arrow(states_to_arrow(states.values())) == states
    return states


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_fact_is_set_aside_and_the_facts_around_it_count(kind: str) -> None:
    sound = sound_rows(JOURNAL, 1, good("acked") | {"offset": 0, "end_offset": 7})
    alone = folded(sound)
    for hostile in hostile_rows(JOURNAL, good(kind)):
        aside: list[SetAside] = []
        states = folded(pa.concat_tables([sound, hostile.row, sound]), aside)
        assert len(aside) <= 1, hostile.name
        if aside:
            assert states == alone, hostile.name
            assert aside[0].shard == SHARD
            assert "x" * 300 not in aside[0].reason, "it is short"


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_facts_fold_to_the_same_in_any_order_and_grouping(kind: str) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rows = [hostile.row for hostile in hostile_rows(JOURNAL, good(kind))]
    rows.append(sound_rows(JOURNAL, 2, good("committed")))
    whole = folded(pa.concat_tables(rows))
    random.Random(seed).shuffle(rows)
    states: States = {}
    for row in rows:
        states = fold_news(states, news_from_arrow(row, SHARD))
    assert states == whole


def names(rows: list[Hostile], *, aside: bool) -> set[str]:
    found = set()
    for hostile in rows:
        odd: list[SetAside] = []
        news_from_arrow(hostile.row, SHARD, odd)
        if bool(odd) is aside:
            found.add(hostile.name)
    return found


def test_numbers_that_would_shut_out_all_that_follow_are_set_aside() -> None:
    refused = names(hostile_rows(JOURNAL, good("taken")), aside=True)
    highest = (1 << 63) - 1
    assert {f"{name}: {highest}" for name in ("epoch", "generation", "offset", "stamp")} <= refused
    assert {f"{name}: -1" for name in ("epoch", "generation", "offset", "partition")} <= refused
    assert {"options: a zero byte", "group: not UTF-8", "kind: empty"} <= refused


def test_odd_words_and_times_of_a_fact_do_not_unsay_it() -> None:
    kept = names(hostile_rows(JOURNAL, good("acked")), aside=False)
    assert {"member: not UTF-8", "reason: Latin-1", "until: year 10000", "at: null"} <= kept


def test_a_run_that_would_take_all_memory_is_set_aside() -> None:
    aside: list[SetAside] = []
    table = sound_rows(JOURNAL, 1, good("parked") | {"end_offset": 1 << 50})
    assert news_from_arrow(table, SHARD, aside) == []
    assert "end_offset" in aside[0].reason
    settled = sound_rows(JOURNAL, 1, good("acked") | {"end_offset": 1 << 50})
    assert len(news_from_arrow(settled, SHARD)) == 1, "it costs nothing, and purges are so large"


def test_what_fails_for_a_reason_that_no_rule_knows_is_found_by_halving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = fact_rows._news

    def unforeseen(table: pa.Table, shard: ShardName) -> list[GroupState]:
        if 5 in table["offset"].to_pylist():
            raise KeyError("nobody thought of it")
        return read(table, shard)

    monkeypatch.setattr(fact_rows, "_news", unforeseen)
    rows = [sound_rows(JOURNAL, 1, good("acked") | {"offset": n}) for n in range(9)]
    aside: list[SetAside] = []
    (state,) = folded(pa.concat_tables(rows), aside).values()
    assert state.records.seen.tolist() == [[0, 5], [6, 9]]
    assert [one.reason.split(":")[0] for one in aside] == ["KeyError"]


def test_a_row_of_group_offsets_that_is_no_state_hides_no_other_group() -> None:
    sound = sound_rows(GROUP_OFFSETS, 1, {"group": "sound"})
    alone = states_from_arrow(sound)
    assert len(alone) == 1
    for hostile in hostile_rows(GROUP_OFFSETS, {"group": "hostile"}):
        states = states_from_arrow(pa.concat_tables([hostile.row, sound]))
        assert alone.items() <= states.items(), hostile.name
        states_to_arrow(states.values())


@pytest.mark.parametrize(
    "given", [None, "x", 3, [["g"]], [["g", "t", "0", 1]], [["g", "t", 0, -1]], [[1, 2, 3, 4]]]
)
def test_what_is_no_fence_is_left_out(given: object) -> None:
    assert fences_in({"fence": given}) == []
    assert fences_in({"fence": [["g", "t", 0, 1]]}) == [("g", "t", 0, 1)]
