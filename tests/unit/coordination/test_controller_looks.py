"""What the controller asks of storage in one look at all groups."""

from __future__ import annotations

from coordination.assignor import Target
from coordination.controller import Looked


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
