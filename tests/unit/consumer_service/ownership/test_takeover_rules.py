"""The rules of a take-over: whom to fence, when the epoch is too low, where to go on."""

from __future__ import annotations

from consumer_service.ownership.journal import Entry, fences_in, judge
from consumer_service.ownership.positions import Consumed, consumed_of, position_of
from consumer_service.ownership.takeover import outnumbered, plan_fences
from lakequeue.records import Epoch, Offset, Partition, ShardName, TopicId, Version
from queue_rules.groups.start import latest_below
from queue_tables.delta.actions import Commit, CommitInfo
from queue_tables.groups.facts import Fact, GroupState, Key, Kind, Word

A, B, OWN = ShardName("a-1"), ShardName("b-1"), ShardName("own-1")


def key(partition: int = 0, group: str = "g") -> Key:
    return Key(group, TopicId("t"), Partition(partition))


def state(
    partition: int = 0,
    epoch: int = 0,
    offset: int | None = None,
    generation: int = 0,
    **holders: tuple[int, bool],
) -> GroupState:
    names = {"a": A, "b": B, "own": OWN}
    return GroupState(
        *key(partition),
        generation=generation,
        committed_offset=None if offset is None else Offset(offset),
        epoch=Epoch(epoch),
        holders={names[n]: Word(Epoch(e), taken) for n, (e, taken) in holders.items()},
    )


def fact(partition: int, epoch: int, kind: Kind = Kind.COMMITTED) -> Fact:
    where = key(partition)
    return Fact(kind, "g", "orders", where[1], where[2], 0, Epoch(epoch))


def test_every_earlier_holder_is_fenced_once_with_all_its_partitions() -> None:
    states = {
        key(0): state(0, a=(1, True), b=(2, True)),
        key(1): state(1, a=(4, True)),
        key(2): state(2, a=(3, False)),
    }
    epochs = {key(n): Epoch(5) for n in range(4)}
    plan = plan_fences(states, epochs, OWN)
    assert plan == {
        A: [("g", "t", 0, 5), ("g", "t", 1, 5)],
        B: [("g", "t", 0, 5)],
    }
    assert plan_fences(states, epochs, OWN, done={(A, key(0)), (A, key(1)), (B, key(0))}) == {}


def test_the_own_shard_and_higher_epochs_are_not_fenced() -> None:
    states = {key(): state(own=(1, True), a=(9, True))}
    assert plan_fences(states, {key(): Epoch(5)}, OWN) == {}


def test_an_equal_or_higher_epoch_in_the_tables_outnumbers() -> None:
    states = {key(0): state(0, epoch=4), key(1): state(1, epoch=5), key(2): state(2, a=(7, False))}
    epochs = {key(n): Epoch(5) for n in range(4)}
    assert outnumbered(states, epochs) == {key(1): 5, key(2): 7}


def test_our_own_fences_do_not_outnumber_us() -> None:
    states = {
        key(0): state(0, a=(5, False)),
        key(1): state(1, a=(5, False), b=(5, False)),
        key(2): state(2, a=(5, True)),
        key(3): state(3, epoch=5, a=(5, False)),
        key(4): state(4, a=(6, False)),
    }
    epochs = {key(n): Epoch(5) for n in range(5)}
    done = {(A, key(n)) for n in range(5)}
    # Those of others do, and whoever has taken under the same epoch: the ensemble was rebuilt.
    assert outnumbered(states, epochs, done) == {key(1): 5, key(2): 5, key(3): 5, key(4): 6}
    assert outnumbered(states, epochs) == {**{key(n): 5 for n in range(4)}, key(4): 6}


def test_a_committed_position_wins_over_the_start() -> None:
    assert position_of(state(offset=7, generation=2), 99).offset == 7
    assert position_of(state(offset=7, generation=2), 99).generation == 2
    fresh = position_of(None, 99)
    assert (fresh.offset, fresh.make_durable) == (99, True)
    earliest = position_of(state(generation=3), None)
    assert (earliest.generation, earliest.offset, earliest.make_durable) == (3, 0, False)


def test_what_transforms_have_consumed_wins_where_it_is_more() -> None:
    further = position_of(state(offset=7, generation=2), None, Consumed(2, 9))
    assert (further.generation, further.offset, further.make_durable) == (2, 9, True)
    assert position_of(state(offset=7), None, Consumed(0, 5)) == position_of(state(offset=7), None)
    assert position_of(None, None, Consumed(0, 3)).offset == 3
    marks = {"consumed/g/t/0": 3, "consumed/g/t/0/2": 8, "consumed/g/t/1": 5}
    assert consumed_of(None, key(), marks) == Consumed(0, 3)
    assert consumed_of(state(offset=1, generation=2), key(), marks) == Consumed(2, 8)
    assert consumed_of(state(offset=1, generation=3), key(), marks) is None


def test_a_seek_that_only_the_marks_know_of_counts() -> None:
    """A copy of a queue whose positions were read before its log: later rounds must be taken."""
    marks = {"generation/g/t/0": 3, "consumed/g/t/0/2": 8, "consumed/g/t/0/3": 5}
    consumed = consumed_of(state(offset=8, generation=2), key(), marks)
    assert consumed == Consumed(3, 5)
    assert consumed_of(state(offset=6, generation=4), key(), marks) is None
    position = position_of(state(offset=8, generation=2), None, consumed)
    assert (position.generation, position.offset, position.make_durable) == (3, 5, True)


def test_facts_under_a_fenced_epoch_are_refused_and_the_others_go_on() -> None:
    info = CommitInfo(lakequeue={"fence": [["g", "t", 0, 5], ["g", "t", 0, 3]]})
    odd = CommitInfo(lakequeue={"fence": [["g", "t", 0, "9"], 3]})
    commits = [Commit(Version(v), (said,)) for v, said in ((7, info), (8, CommitInfo()), (9, odd))]
    fences = fences_in(commits)
    assert fences == {key(0): 5}
    entries = [Entry([fact(0, 4), fact(1, 4)]), Entry([fact(0, 5)])]
    allowed = judge(entries, fences, {key(0): 5, key(1): 4})
    assert [(f.partition, f.epoch) for f in allowed] == [(1, 4), (0, 5)]
    assert entries[0].refused == {key(0): 5}
    assert entries[1].refused == {}


def test_a_fact_needs_its_taken_in_the_same_shard() -> None:
    entries = [Entry([fact(0, 4)]), Entry([fact(1, 6, Kind.TAKEN), fact(1, 6)])]
    assert [f.partition for f in judge(entries, {}, {})] == [1, 1]
    assert entries[0].refused == {key(0): 0}
    old = [Entry([fact(1, 5)])]
    assert judge(old, {}, {key(1): 6}) == []
    assert old[0].refused == {key(1): 6}


def test_latest_is_for_groups_that_are_new_to_a_topic() -> None:
    partitions = {TopicId("t"): 4, TopicId("u"): 2}
    assert latest_below("earliest", partitions, []) == {"t": 0, "u": 0}
    assert latest_below("latest", partitions, []) == {"t": 4, "u": 2}
    assert latest_below("latest", partitions, [key(0)]) == {"t": 0, "u": 2}
