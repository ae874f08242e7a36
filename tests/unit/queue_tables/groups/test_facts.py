"""The fold is a join: order, repetition and grouping of facts do not matter."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.records import Epoch, Offset, Partition, ShardName, TopicId
from queue_tables.groups.fact_rows import (
    from_arrow,
    news_from_arrow,
    states_from_arrow,
    states_to_arrow,
    to_arrow,
)
from queue_tables.groups.facts import (
    Fact,
    Fence,
    GroupState,
    Key,
    Kind,
    States,
    fold,
    fold_news,
    join,
)
from queue_tables.groups.record_states import Stage

KEY = Key("g", TopicId("t1"), Partition(0))
SHARDS = [ShardName(name) for name in ("a-1", "a-2", "b-1")]


def a_fact(
    kind: Kind = Kind.COMMITTED,
    offset: int | None = None,
    *,
    epoch: int = 1,
    generation: int = 0,
    shard: str = "a-1",
    group: str = "g",
    at: int = 0,
) -> Fact:
    return Fact(
        kind,
        group,
        "orders",
        TopicId("t1"),
        Partition(0),
        generation,
        Epoch(epoch),
        None if offset is None else Offset(offset),
        member="m1",
        at=at,
        shard=ShardName(shard),
    )


def a_fence(epoch: int, shard: str = "a-1") -> Fence:
    return Fence(ShardName(shard), *KEY, Epoch(epoch))


def taken(epoch: int, shard: str = "a-1") -> Fact:
    return a_fact(Kind.TAKEN, epoch=epoch, shard=shard)


facts_strategy = st.builds(
    Fact,
    kind=st.sampled_from(Kind),
    group=st.sampled_from(["g", "h"]),
    topic=st.just("orders"),
    topic_id=st.just(TopicId("t1")),
    partition=st.sampled_from([Partition(0), Partition(1)]),
    generation=st.integers(0, 3),
    epoch=st.integers(1, 5).map(Epoch),
    offset=st.none() | st.integers(0, 20).map(Offset),
    member=st.sampled_from(["m1", "m2"]),
    mode=st.just("stream"),
    at=st.integers(0, 9),
    shard=st.sampled_from(SHARDS),
).filter(lambda fact: not fact.kind.of_records)


@st.composite
def queue_facts(draw: st.DrawFn) -> Fact:
    """A fact of a queue group; of records more often than not."""
    kind = draw(st.sampled_from([*Kind, *(kind for kind in Kind if kind.of_records)]))
    first = draw(st.integers(0, 12))
    end = draw(st.none() | st.integers(first + 1, first + 4))
    return Fact(
        kind,
        draw(st.sampled_from(["q", "r"])),
        "orders",
        TopicId("t1"),
        Partition(0),
        draw(st.integers(0, 2)),
        Epoch(draw(st.integers(1, 3))),
        Offset(first),
        member=draw(st.sampled_from(["", "m1", "m2"])),
        mode="queue",
        at=draw(st.integers(0, 9)),
        shard=draw(st.sampled_from(SHARDS)),
        end_offset=None if end is None or not kind.of_records else Offset(end),
        attempt=draw(st.integers(0, 3)) if kind.of_records else None,
        until=draw(st.none() | st.integers(1, 5)),
        first_at=draw(st.none() | st.integers(1, 2)),
        key_hash=draw(st.none() | st.integers(-1, 1)),
        expires_at=draw(st.none() | st.integers(1, 2)),
        reason=draw(st.sampled_from(["", "expired"])),
        dead_letter=draw(st.sampled_from(["", "orders.dlq/0@1"])) if kind is Kind.DEAD else "",
        options="{}" if kind is Kind.TAKEN else "",
    )


fences_strategy = st.builds(
    Fence,
    shard=st.sampled_from(SHARDS),
    group=st.sampled_from(["g", "h"]),
    topic_id=st.just(TopicId("t1")),
    partition=st.sampled_from([Partition(0), Partition(1)]),
    epoch=st.integers(1, 6).map(Epoch),
)
News = Fact | Fence
news_strategy = st.lists(facts_strategy | queue_facts() | fences_strategy, max_size=12)
sealed_strategy = st.sets(st.sampled_from(SHARDS))


def fold_all(states: States, news: list[News], sealed: set[ShardName]) -> States:
    facts = [one for one in news if isinstance(one, Fact)]
    fences = [one for one in news if isinstance(one, Fence)]
    return fold(states, facts, fences, sealed)


@given(news_strategy, sealed_strategy, st.data())
def test_any_order_repetition_and_split_gives_the_same_state(
    news: list[News], sealed: set[ShardName], data: st.DataObject
) -> None:
    expected = fold_all({}, news, sealed)

    shuffled = list(data.draw(st.permutations(news)))
    repeated = data.draw(st.lists(st.sampled_from(news), max_size=6)) if news else []
    mixed = shuffled + repeated
    cuts = sorted(data.draw(st.lists(st.integers(0, len(mixed)), max_size=4)))
    states: States = {}
    for start, end in zip([0, *cuts], [*cuts, len(mixed)], strict=True):
        # A fold in the middle may not know of every seal yet: the last one does.
        known = data.draw(st.sets(st.sampled_from(sorted(sealed)))) if sealed else set()
        states = fold_all(states, mixed[start:end], known)
        states = states_from_arrow(states_to_arrow(states.values()))
    assert fold(states, [], [], sealed) == expected


@given(news_strategy, news_strategy)
def test_a_state_never_moves_back(earlier: list[News], later: list[News]) -> None:
    before = fold_all({}, earlier, set())
    after = fold_all(before, later, set())
    for key, state in before.items():
        assert join(state, after[key]) == after[key]
        assert after[key].epoch >= state.epoch
        assert after[key].highest_epoch >= state.highest_epoch
        position = (state.generation, state.committed_offset or 0)
        assert (after[key].generation, after[key].committed_offset or 0) >= position


@given(news_strategy)
def test_groups_do_not_affect_each_other(news: list[News]) -> None:
    alone = fold_all({}, [one for one in news if one.group == "g"], set())
    together = fold_all({}, news, set())
    assert {key: s for key, s in together.items() if key.group == "g"} == alone


def test_a_late_fact_of_a_lower_epoch_moves_nothing_back() -> None:
    now = fold({}, [taken(2, "b-1"), a_fact(offset=50, epoch=2, shard="b-1")])
    late = fold(now, [taken(1), a_fact(offset=20, epoch=1)])
    assert late[KEY].committed_offset == 50
    assert late[KEY].epoch == 2
    assert late[KEY].owner_shard == "b-1"


def test_a_commit_under_a_superseded_epoch_never_changes_the_owner() -> None:
    now = fold({}, [taken(2, "b-1"), a_fact(offset=50, epoch=2, shard="b-1")])
    late = fold(now, [a_fact(offset=60, epoch=1)])[KEY]
    assert (late.owner_shard, late.epoch) == ("b-1", 2)
    assert late.committed_offset == 60


@pytest.mark.parametrize("seed", range(5))
def test_a_seek_wins_over_every_commit_of_an_earlier_generation(seed: int) -> None:
    print(f"seed {seed}")
    facts = [
        a_fact(offset=100, epoch=1),
        a_fact(Kind.SEEK, 10, epoch=2, generation=1),
        a_fact(offset=12, epoch=3, generation=1),
        a_fact(offset=120, epoch=1),
    ]
    random.Random(seed).shuffle(facts)
    state = fold({}, facts)[KEY]
    assert (state.generation, state.committed_offset) == (1, 12)


def test_taken_moves_no_position() -> None:
    state = fold({}, [a_fact(offset=7), a_fact(Kind.TAKEN, epoch=9, generation=3)])[KEY]
    assert (state.generation, state.committed_offset) == (0, 7)


def test_a_deleted_group_has_no_position_until_it_is_taken_anew() -> None:
    deleted = fold(
        {}, [taken(1), a_fact(offset=7), a_fact(Kind.GROUP_DELETED, epoch=2, generation=1)]
    )[KEY]
    assert deleted.deleted
    assert deleted.committed_offset is None
    again = fold({KEY: deleted}, [taken(3)])[KEY]
    assert not again.deleted
    assert (again.generation, again.committed_offset) == (1, None)


def test_a_taker_fences_each_shard_whose_newest_word_is_an_older_taken() -> None:
    state = fold({}, [taken(1, "a-1"), taken(2, "b-1"), taken(3, "a-2")], [a_fence(2, "a-1")])[KEY]
    assert state.to_fence(Epoch(4)) == ["a-2", "b-1"]
    assert state.to_fence(Epoch(3)) == ["b-1"]


def test_an_owner_that_takes_again_is_a_holder_again() -> None:
    state = fold({}, [taken(1), taken(3)], [a_fence(2)])[KEY]
    assert state.to_fence(Epoch(4)) == ["a-1"]


def test_a_sealed_shard_needs_no_fence() -> None:
    state = fold({}, [taken(1), taken(2, "b-1")], sealed={ShardName("a-1")})[KEY]
    assert state.to_fence(Epoch(3)) == ["b-1"]


def test_the_epoch_of_a_fence_is_remembered_when_its_shard_is_sealed() -> None:
    state = fold({}, [taken(1)], [a_fence(9)], sealed={ShardName("a-1")})[KEY]
    assert state.highest_epoch == 9


@given(st.lists(facts_strategy, max_size=5))
def test_facts_survive_their_rows(facts: list[Fact]) -> None:
    by_shard = {shard: [fact for fact in facts if fact.shard == shard] for shard in SHARDS}
    for shard, mine in by_shard.items():
        assert from_arrow(to_arrow(mine), shard) == mine


def test_kinds_of_a_newer_release_are_skipped() -> None:
    rows = to_arrow([a_fact(offset=1)])
    at = rows.schema.get_field_index("kind")
    assert from_arrow(rows.set_column(at, "kind", [["of_a_newer_release"]]), ShardName("a-1")) == []


def test_an_empty_state_has_rows_of_the_declared_schema() -> None:
    assert states_from_arrow(states_to_arrow([])) == {}
    lone = GroupState("g", TopicId("t1"), Partition(0))
    assert states_from_arrow(states_to_arrow([lone])) == {KEY: lone}


@given(st.lists(queue_facts(), max_size=15))
def test_rows_by_column_say_what_the_facts_say_one_by_one(facts: list[Fact]) -> None:
    shard = SHARDS[0]
    mine = [replace(fact, shard=shard) for fact in facts]
    by_column = fold_news({}, news_from_arrow(to_arrow(mine), shard))
    assert by_column == fold({}, mine)


def a_record_fact(kind: Kind, offset: int, attempt: int = 1, **fields: Any) -> Fact:
    fields = {"until": 100, "first_at": 7} | fields
    return replace(a_fact(kind, offset), mode="queue", attempt=attempt, **fields)


def test_settled_is_for_good_whatever_is_said_of_an_attempt_later() -> None:
    acked = a_record_fact(Kind.ACKED, 5)
    late = a_record_fact(Kind.DELIVERED, 5, attempt=9)
    for facts in ([acked, late], [late, acked]):
        records = fold({}, facts)[KEY].records
        assert len(records.open) == 0
        assert records.seen.tolist() == [[5, 6]]


def test_of_one_offset_the_newest_attempt_and_its_latest_stage_count() -> None:
    facts = [
        a_record_fact(Kind.DELIVERED, 0, 1, until=50),
        a_record_fact(Kind.PARKED, 0, 1, until=60),
        a_record_fact(Kind.DELIVERED, 0, 2, until=90),
        a_record_fact(Kind.DELIVERED, 0, 2, until=120),  # extended
    ]
    row = fold({}, reversed(facts))[KEY].records.open[0]
    assert (row["attempt"], row["stage"], row["until"]) == (2, Stage.DELIVERED, 120)


def test_a_seek_forgets_what_was_open_and_late_facts_of_before_change_nothing() -> None:
    before = [a_record_fact(Kind.DELIVERED, n) for n in range(4)]
    seek = replace(a_fact(Kind.SEEK, 2, generation=1), mode="queue")
    state = fold({}, [seek, *before])[KEY]
    assert (state.generation, state.committed_offset, state.needed_from) == (1, 2, 2)
    assert len(state.records.open) == 0


def test_the_log_must_keep_what_is_open_however_far_the_position_is() -> None:
    facts = [
        a_record_fact(Kind.DELIVERED, 0, end_offset=Offset(10)),
        a_record_fact(Kind.PARKED, 3),
        *(a_record_fact(Kind.ACKED, n) for n in range(10) if n != 3),
    ]
    state = fold({}, facts)[KEY]
    assert (state.committed_offset, state.needed_from) == (10, 3)
