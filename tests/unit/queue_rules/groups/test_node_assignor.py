"""Queue groups: partitions go to nodes in proportion to the workers there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queue_rules.groups.assignor import Assignment, Target
from queue_rules.groups.node_assignor import assign_nodes


def targets(topic: str, count: int) -> list[Target]:
    return [Target(topic, f"id-{topic}", number) for number in range(count)]


def counts(share: Assignment) -> dict[str, int]:
    return {node: len(owned) for node, owned in share.items()}


def test_in_proportion_to_the_workers() -> None:
    workers = {"a": {"t": 150}, "b": {"t": 50}}
    assert counts(assign_nodes(targets("t", 4), workers, {})) == {"a": 3, "b": 1}


def test_a_node_without_a_share_is_in_the_answer_with_nothing() -> None:
    workers = {"a": {"t": 1}, "b": {"t": 1}, "c": {"t": 1}}
    assert sorted(counts(assign_nodes(targets("t", 2), workers, {})).values()) == [0, 1, 1]


def test_what_need_not_move_does_not() -> None:
    first = assign_nodes(targets("t", 4), {"a": {"t": 2}, "b": {"t": 2}}, {})
    more = assign_nodes(targets("t", 4), {"a": {"t": 2}, "b": {"t": 2}, "c": {"t": 1}}, first)
    for node in "ab":
        assert set(more[node]) <= set(first[node])
    gone = assign_nodes(targets("t", 4), {"b": {"t": 2}}, first)
    assert set(first["b"]) <= set(gone["b"])


def test_topics_of_one_partition_spread_over_the_nodes() -> None:
    some = [t for name in ("r", "s", "t", "u") for t in targets(name, 1)]
    workers = {node: dict.fromkeys(("r", "s", "t", "u"), 1) for node in "ab"}
    assert counts(assign_nodes(some, workers, {})) == {"a": 2, "b": 2}


@given(
    st.dictionaries(st.sampled_from("rst"), st.integers(1, 9), min_size=1),
    st.dictionaries(
        st.sampled_from("abcd"),
        st.dictionaries(st.sampled_from("rst"), st.integers(0, 5)),
        min_size=1,
    ),
    st.randoms(),
)
def test_every_partition_has_one_owner_with_workers_and_the_answer_is_steady(
    sizes: dict[str, int], workers: dict[str, dict[str, int]], random: object
) -> None:
    some = [t for topic, count in sizes.items() for t in targets(topic, count)]
    share = assign_nodes(some, workers, {})
    assert set(share) == set(workers)
    owned = [target for mine in share.values() for target in mine]
    worked = {topic for mine in workers.values() for topic, count in mine.items() if count}
    assert sorted(owned) == sorted(t for t in some if t.topic in worked)
    for topic, count in sizes.items():
        total = sum(mine.get(topic, 0) for mine in workers.values())
        for node, mine in share.items():
            got = sum(t.topic == topic for t in mine)
            exact = count * workers[node].get(topic, 0) / total if total else 0
            assert abs(got - exact) < 1
    assert assign_nodes(some, workers, share) == share
