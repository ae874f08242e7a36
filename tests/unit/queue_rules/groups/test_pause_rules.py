"""Rules of pauses: the newest word about a partition counts."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from queue_rules.groups.pause_rules import PauseRules

TOPICS, PARTITIONS = ("orders", "bills"), range(3)


class Word(NamedTuple):
    """One pause or resume."""

    paused: bool
    topic: str | None
    partitions: list[int] | None


def words() -> st.SearchStrategy[list[Word]]:
    whole = st.builds(Word, st.booleans(), st.none(), st.none())
    some = st.lists(st.sampled_from(PARTITIONS), min_size=1)
    topic = st.builds(Word, st.booleans(), st.sampled_from(TOPICS), st.none() | some)
    return st.lists(whole | topic, max_size=12)


def is_about(word: Word, topic: str, partition: int) -> bool:
    return word.topic in {None, topic} and (word.partitions is None or partition in word.partitions)


@given(words())
def test_the_newest_word_about_a_partition_counts(said: list[Word]) -> None:
    rules = PauseRules()
    for word in said:
        rules = rules.changed(*word)
    for topic in (*TOPICS, "of later"):
        for partition in (*PARTITIONS, 99):
            about = [w.paused for w in said if is_about(w, topic, partition)]
            assert rules.paused(topic, partition) == (about[-1] if about else False)
    assert PauseRules.from_json(rules.to_json()) == rules


def test_what_says_the_same_as_the_whole_is_not_kept() -> None:
    rules = PauseRules().changed(True, "orders", [1]).changed(True).changed(True, "orders")
    assert rules.rules == {(None, None): True}
    assert rules.changed(False).rules == {}
