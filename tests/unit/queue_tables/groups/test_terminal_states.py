"""How settled records ended: a join that keeps the newest, against a model of plain sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.records import Epoch, Offset, Partition, ShardName, TopicId
from queue_tables.groups import terminal_states
from queue_tables.groups.fact_rows import (
    news_from_arrow,
    states_from_arrow,
    states_to_arrow,
    to_arrow,
)
from queue_tables.groups.facts import Fact, Key, Kind, fold, fold_news
from queue_tables.groups.offset_ranges import NO_RANGES, count_from, ranges_of
from queue_tables.groups.terminal_states import (
    DeadRecord,
    TerminalStates,
    join_terminal_states,
    last_offsets,
)

KEY = Key("g", TopicId("t1"), Partition(0))
SHARD = ShardName("a-1")
MOST = 4


@contextmanager
def small_bounds() -> Iterator[None]:
    with (
        patch.object(terminal_states, "MOST_DEAD", MOST),
        patch.object(terminal_states, "MOST_EXPIRED", MOST),
    ):
        yield


@st.composite
def endings_facts(draw: st.DrawFn) -> Fact:
    """A fact that settles records."""
    kind = draw(st.sampled_from([Kind.ACKED, Kind.DEAD, Kind.DEAD, Kind.EXPIRED]))
    first = draw(st.integers(0, 20))
    return Fact(
        kind,
        KEY.group,
        "orders",
        KEY.topic_id,
        KEY.partition,
        0,
        Epoch(1),
        Offset(first),
        mode="queue",
        shard=SHARD,
        end_offset=Offset(draw(st.integers(first + 1, first + 5))),
        attempt=draw(st.integers(0, 2)),
        reason=draw(st.sampled_from(["expired", "max_attempts"])),
        dead_letter=draw(st.sampled_from(["", "orders.dlq/0@7"])),
    )


def covered(fact: Fact) -> range:
    assert fact.offset is not None
    assert fact.end_offset is not None
    return range(fact.offset, fact.end_offset)


@given(st.lists(endings_facts(), max_size=14), st.data())
def test_the_newest_dead_and_expired_are_known_in_whatever_order_they_are_folded(
    facts: list[Fact], data: st.DataObject
) -> None:
    dead: dict[int, DeadRecord] = {}
    expired: set[int] = set()
    for fact in facts:
        for offset in covered(fact):
            if fact.kind is Kind.DEAD:
                row = DeadRecord(offset, fact.attempt or 0, fact.reason, fact.dead_letter)
                dead[offset] = max(row, dead.get(offset, row))
            elif fact.kind is Kind.EXPIRED:
                expired.add(offset)
    mixed = [*data.draw(st.permutations(facts)), *data.draw(st.permutations(facts))]
    cut = data.draw(st.integers(0, len(mixed)))
    with small_bounds():
        states = fold({}, mixed[:cut])
        states = states_from_arrow(states_to_arrow(states.values()))
        states = fold_news(states, news_from_arrow(to_arrow(mixed[cut:]), SHARD))
        if not facts:
            return
        records = states[KEY].records
        found = {DeadRecord(*row) for row in records.ends.dead.tolist()}
        assert found == {dead[offset] for offset in sorted(dead)[-MOST:]}
        kept = {o for start, end in records.ends.expired.tolist() for o in range(start, end)}
        assert kept == set(sorted(expired)[-MOST:])
        known_from = records.ends.known_from
        forgotten = (dead.keys() | expired) - kept - {row.offset for row in found}
        assert all(offset < known_from for offset in forgotten)
        assert known_from == 0 or len(dead) >= MOST or len(expired) >= MOST
    seen = {o for start, end in records.seen.tolist() for o in range(start, end)}
    assert seen == {offset for fact in facts for offset in covered(fact)}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))), st.integers(1, 20))
def test_of_a_set_the_highest_offsets_are_left(pairs: list[tuple[int, int]], most: int) -> None:
    ranges = ranges_of(pairs)
    offsets = [o for start, end in ranges.tolist() for o in range(start, end)]
    left = last_offsets(ranges, most)
    assert [o for start, end in left.tolist() for o in range(start, end)] == offsets[-most:]
    assert (left[:, 0] < left[:, 1]).all()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))), st.integers(0, 30))
def test_offsets_from_one_on_are_counted(pairs: list[tuple[int, int]], start: int) -> None:
    ranges = ranges_of(pairs)
    offsets = [o for first, end in ranges.tolist() for o in range(first, end)]
    assert count_from(ranges, start) == sum(offset >= start for offset in offsets)


def test_a_dead_record_is_found_by_its_offset() -> None:
    ends = TerminalStates.died([DeadRecord(7, 3, "max_attempts", "dlq/0@1"), DeadRecord(2, 1)])
    assert ends.dead_at(7) == DeadRecord(7, 3, "max_attempts", "dlq/0@1")
    assert ends.dead_at(2) == DeadRecord(2, 1)
    assert [ends.dead_at(offset) for offset in (0, 3, 8)] == [None] * 3


@pytest.mark.parametrize(
    "count", [0, 1, terminal_states.MOST_EXPIRED, terminal_states.MOST_EXPIRED + 1]
)
def test_a_full_set_says_from_where_on_it_is_whole(count: int) -> None:
    ends = join_terminal_states(
        TerminalStates.ran_out((5, 5 + count)), TerminalStates.died([DeadRecord(1)])
    )
    full = count >= terminal_states.MOST_EXPIRED
    assert ends.known_from == (5 + count - terminal_states.MOST_EXPIRED if full else 0)
    assert np_size(ends) == min(count, terminal_states.MOST_EXPIRED)


def np_size(ends: TerminalStates) -> int:
    return int((ends.expired[:, 1] - ends.expired[:, 0]).sum()) if len(ends.expired) else 0


def test_nothing_ended_is_nothing() -> None:
    assert last_offsets(NO_RANGES, 3) is NO_RANGES
    assert TerminalStates.died([]).known_from == 0
