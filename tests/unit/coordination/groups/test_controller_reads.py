"""What the controller asks of storage and of ZooKeeper in one look at all groups."""

from __future__ import annotations

from coordination.groups.controller import Looked
from coordination.groups.group_cache import to_read
from queue_rules.groups.assignor import Target


class Topics:
    """The table of topics."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.asked: list[list[str]] = []

    def __call__(self, names: list[str]) -> list[tuple[str, str, int]]:
        self.asked.append(names)
        known = [name for name in names if name in self.counts]
        return [(name, f"{name}-id", p) for name in known for p in range(self.counts[name])]


def test_a_hundred_groups_on_the_same_topics_are_one_look_at_the_table() -> None:
    topics = Topics(a=2, b=1)
    looked = Looked(topics)
    both = [Target("a", "a-id", 0), Target("a", "a-id", 1), Target("b", "b-id", 0)]
    assert [looked.of(["a", "b"]) for _ in range(100)] == [both] * 100
    assert looked.of(["b"]) == both[2:]
    assert looked.of([]) == []
    assert topics.asked == [["a", "b"]]


def test_a_topic_that_was_made_while_it_looks_is_found() -> None:
    topics = Topics(a=1)
    looked = Looked(topics)
    assert looked.of(["a", "new"]) == [Target("a", "a-id", 0)]
    topics.counts["new"] = 1
    assert looked.of(["a", "new"]) == [Target("a", "a-id", 0), Target("new", "new-id", 0)]
    assert topics.asked == [["a", "new"], ["new"]]


def test_of_the_groups_that_are_there_those_are_read_that_have_changed() -> None:
    assert to_read(["a", "b", "c"], {"b", "gone"}, anew=False) == ["b"]
    assert to_read(["a", "b"], set(), anew=False) == []
    assert to_read(["a", "b"], {"b"}, anew=True) == ["a", "b"]
