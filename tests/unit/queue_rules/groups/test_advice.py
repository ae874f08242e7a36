"""What is advised, by two looks at groups that are ten seconds apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakequeue.wire import AdviceAnswer, GroupDescription
from queue_rules.groups.advice import Look, advise, course_of

SECONDS = 10.0


def group(
    ends: Sequence[int],
    lags: Sequence[int],
    members: Sequence[str] = ("n1",),
    *,
    name: str = "g",
    mode: str = "stream",
    **row: Any,
) -> GroupDescription:
    """A group on topic t; `members` are the nodes of its members."""
    partitions = [
        {"topic": "t", "topic_id": "i", "partition": n, "end_offset": end, "lag": lag} | row
        for n, (end, lag) in enumerate(zip(ends, lags, strict=True))
    ]
    present = [
        {"member_id": f"m{n}", "topics": ["t"], "node": node} for n, node in enumerate(members)
    ]
    return GroupDescription.model_validate(
        {"group": name, "mode": mode, "partitions": partitions, "members": present}
    )


def judged(
    before: GroupDescription | list[GroupDescription],
    after: GroupDescription | list[GroupDescription],
    threads: int = 100,
) -> AdviceAnswer:
    first, last = (
        Look(at, [given] if isinstance(given, GroupDescription) else given)
        for at, given in ((0.0, before), (SECONDS, after))
    )
    return advise(first.past(), last, threads)


def only(answer: AdviceAnswer) -> tuple[str, int | None]:
    assert len(answer.advice) == 1, answer
    return answer.advice[0].add, answer.advice[0].to


def test_one_scan_says_nothing_yet() -> None:
    assert advise(None, Look(0.0, [group([10], [10], [])]), 100).advice == []


@pytest.mark.parametrize(
    ("lag", "lag_per_s", "in_per_s", "out_per_s", "course"),
    [
        (0, 0, 0, 0, "idle"),
        (0, 0, 100, 100, "steady"),
        (150, 60, 100, 40, "steady"),  # less than two seconds of input
        (500, 2, 100, 98, "steady"),
        (500, 50, 100, 50, "falling_behind"),
        (500, 5, 5, 0, "falling_behind"),
        (500, 0, 0, 0, "stuck"),
        (500, -50, 100, 150, "catching_up"),
        (500_000, -50, 100, 150, "falling_behind"),  # it would take hours
    ],
)
def test_courses(
    lag: int, lag_per_s: float, in_per_s: float, out_per_s: float, course: str
) -> None:
    assert course_of(lag, lag_per_s, in_per_s, out_per_s) == course


def test_who_keeps_up_needs_nothing() -> None:
    answer = judged(group([0, 0], [0, 0]), group([1_000, 1_000], [20, 10]))
    assert answer.advice == []
    trend = answer.trends[0]
    assert (trend.course, trend.in_per_s, trend.out_per_s) == ("steady", 200.0, 197.0)


def test_a_group_without_consumers_needs_one() -> None:
    answer = judged(group([0], [0], []), group([1_000], [1_000], []))
    assert only(answer) == ("consumers", 1)
    assert "nobody consumes" in answer.advice[0].detail
    resting = judged(group([9], [9_000], []), group([9], [9_000], []))
    assert only(resting) == ("consumers", 1)


def test_fewer_consumers_than_partitions_more_of_them() -> None:
    # 400/s come, 200/s are done by one: 2.5 would do, with a quarter to spare.
    answer = judged(group([0] * 4, [0] * 4), group([1_000] * 4, [500] * 4))
    assert only(answer) == ("consumers", 3)
    assert answer.advice[0].do == "start 2 more"


def test_never_more_consumers_than_partitions() -> None:
    two = ("n1", "n1")
    answer = judged(group([0] * 3, [0] * 3, two), group([1_000] * 3, [900] * 3, two))
    assert only(answer) == ("consumers", 3)


def test_a_consumer_for_each_partition_more_partitions() -> None:
    two = ("n1", "n1")
    answer = judged(group([0] * 2, [0] * 2, two), group([1_000] * 2, [500] * 2, two))
    assert only(answer) == ("partitions", 5)
    assert answer.advice[0].do.startswith("lakequeue topic alter t -p 5")


def test_one_partition_that_gets_too_much_is_named() -> None:
    three = ("n1", "n1", "n1")
    answer = judged(group([0] * 3, [0] * 3, three), group([9_000, 100, 100], [5_000, 1, 2], three))
    assert only(answer) == ("keys", None)
    assert "partition 0 alone" in answer.advice[0].detail


def test_workers_share_partitions() -> None:
    two = ("n1", "n1")
    before = group([0], [0], two, mode="queue")
    after = group([1_000], [500], two, mode="queue")
    assert only(judged(before, after)) == ("consumers", 5)


def test_who_settles_nothing_is_told_to_look() -> None:
    before = group([900], [900], mode="queue", held_back="10000 records are open")
    answer = judged(before, before)
    assert only(answer) == ("consumers", None)
    assert "10000 records are open" in answer.advice[0].detail


def test_paused_and_new_partitions_count_for_nothing() -> None:
    paused = judged(group([0], [0], paused=True), group([1_000], [1_000], paused=True))
    assert (paused.advice, paused.trends) == ([], [])
    born = judged(group([0], [0]), group([1_000, 9_000], [10, 9_000]))
    assert born.advice == []
    assert born.trends[0].partitions == 1


def test_a_node_whose_threads_are_taken_needs_another() -> None:
    crowd = group([0], [0], ["n1"] * 85 + ["n2"] * 5)
    answer = judged(crowd, crowd)
    assert only(answer) == ("nodes", 2)
    assert answer.advice[0].node == "n1"
    assert judged(crowd, crowd, threads=200).advice == []


def test_a_node_all_of_whose_groups_fall_behind_while_others_do_not() -> None:
    def groups(lag: int) -> list[GroupDescription]:
        end = 1_000 if lag else 0
        return [
            group([end], [lag], ["slow"], name="a"),
            group([end], [lag], ["slow"], name="b"),
            group([end], [0], ["quick"], name="c"),
        ]

    answer = judged(groups(0), groups(800))
    assert ("nodes", "slow") in [(advice.add, advice.node) for advice in answer.advice]
    alone = judged(groups(0)[:2], groups(800)[:2])
    assert "nodes" not in [advice.add for advice in alone.advice]
