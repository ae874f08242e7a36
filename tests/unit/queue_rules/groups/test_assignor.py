"""The assignor's rules, over many shapes of groups."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from queue_rules.groups.assignor import Assignment, Target, assign

FLIGHTS = ("flights",)
TOPICS = ("flights", "orders", "taxis")


def parts(topic: str, count: int) -> list[Target]:
    return [Target(topic, f"{topic}-id", partition) for partition in range(count)]


@st.composite
def partition_sets(draw: st.DrawFn) -> list[Target]:
    return [t for topic in TOPICS for t in parts(topic, draw(st.integers(0, 9)))]


subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]),
    st.sets(st.sampled_from(TOPICS), min_size=1).map(sorted),
    max_size=8,
)


@st.composite
def currents(draw: st.DrawFn) -> Assignment:
    """Any earlier assignment, also one of members and partitions that are gone, or a wrong one."""
    owners = st.sampled_from([f"m{number}" for number in range(10)])
    everything = [t for topic in (*TOPICS, "gone") for t in parts(topic, 12)]
    chosen = draw(st.lists(st.tuples(owners, st.sampled_from(everything)), max_size=40))
    current: Assignment = {}
    for member, target in chosen:
        current.setdefault(member, []).append(target)
    return current


def owners_of(share: Assignment) -> dict[Target, list[str]]:
    owners: dict[Target, list[str]] = {}
    for member, targets in share.items():
        for target in targets:
            owners.setdefault(target, []).append(member)
    return owners


@settings(max_examples=60)
@given(partition_sets(), subscriptions, currents())
def test_every_partition_has_exactly_one_owner_among_its_subscribers(
    partitions: list[Target], members: dict[str, list[str]], current: Assignment
) -> None:
    share = assign(partitions, members, current)
    owners = owners_of(share)
    assert set(share) == set(members)
    for target in partitions:
        subscribers = {member for member, topics in members.items() if target.topic in topics}
        assert len(owners.get(target, [])) == (1 if subscribers else 0)
        assert set(owners.get(target, [])) <= subscribers
    assert set(owners) <= set(partitions)


@settings(max_examples=60)
@given(partition_sets(), subscriptions, currents())
def test_members_with_the_same_subscription_differ_by_at_most_one(
    partitions: list[Target], members: dict[str, list[str]], current: Assignment
) -> None:
    share = assign(partitions, members, current)
    for one, other in combinations(members, 2):
        if members[one] == members[other]:
            assert abs(len(share[one]) - len(share[other])) <= 1


@settings(max_examples=60)
@given(partition_sets(), st.integers(1, 8), currents())
def test_no_more_partitions_move_than_balance_asks_for(
    partitions: list[Target], count: int, current: Assignment
) -> None:
    members = {f"m{number}": TOPICS for number in range(count)}
    share = assign(partitions, members, current)
    rightful: dict[str, set[Target]] = {}
    claimed: set[Target] = set()
    for member in members:
        rightful[member] = ({*current.get(member, ())} & set(partitions)) - claimed
        claimed |= rightful[member]
    quota, extra = divmod(len(partitions), count)
    above = sum(len(owned) > quota for owned in rightful.values())
    could_stay = sum(min(len(owned), quota) for owned in rightful.values()) + min(extra, above)
    stayed = sum(len(rightful[member] & set(share[member])) for member in members)
    assert stayed == could_stay


@settings(max_examples=60)
@given(partition_sets(), subscriptions, currents())
def test_the_answer_is_stable_and_does_not_depend_on_the_order_of_its_input(
    partitions: list[Target], members: dict[str, list[str]], current: Assignment
) -> None:
    share = assign(partitions, members, current)
    shuffled = dict(reversed(members.items()))
    assert assign(list(reversed(partitions)), shuffled, current) == share
    assert assign(partitions, members, share) == share


def test_a_third_member_takes_two_of_eight_and_the_rest_stays() -> None:
    partitions = parts("flights", 8)
    before = assign(partitions, dict.fromkeys("ab", FLIGHTS), {})
    after = assign(partitions, dict.fromkeys("abc", FLIGHTS), before)
    assert [len(after[member]) for member in "abc"] == [3, 3, 2]
    assert set(after["a"]) < set(before["a"])
    assert set(after["b"]) < set(before["b"])


def test_what_a_leaver_had_is_shared_and_nothing_else_moves() -> None:
    partitions = parts("flights", 9)
    before = assign(partitions, dict.fromkeys("abc", FLIGHTS), {})
    after = assign(partitions, dict.fromkeys("ac", FLIGHTS), before)
    assert set(before["a"]) < set(after["a"])
    assert set(before["c"]) < set(after["c"])


def test_surplus_members_stand_by() -> None:
    share = assign(parts("flights", 2), dict.fromkeys("abc", FLIGHTS), {})
    assert sorted(map(len, share.values())) == [0, 1, 1]


def test_topics_spread_over_members_that_take_both() -> None:
    partitions = [*parts("flights", 2), *parts("orders", 2)]
    share = assign(partitions, dict.fromkeys("ab", TOPICS), {})
    assert {target.topic for target in share["a"]} == {"flights", "orders"}


def test_a_topic_created_again_is_another_partition() -> None:
    old = {"a": [Target("flights", "old-id", 0)]}
    assert assign(parts("flights", 1), {"a": FLIGHTS}, old) == {"a": parts("flights", 1)}
