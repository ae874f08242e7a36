"""Grants, roles, and what they come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import InvalidName, InvalidRequest
from queue_access.rights import ALL, EVERY, Grant, Kind, Right, Rights, checked_grant, grants_of

NAMES = st.sampled_from(["a", "ab", "orders", "orders-eu", "x"])
PATTERNS = st.one_of(NAMES, NAMES.map(lambda name: name + "*"), st.just("*"))
KINDS = list(map(str, Kind))
GRANTS = st.lists(
    st.builds(
        checked_grant,
        st.sampled_from([*map(str, Right)]),
        st.sampled_from([*map(str, Kind)]),
        PATTERNS,
    ),
    max_size=6,
)


def covers(grant: Grant, right: Right, kind: Kind, name: str) -> bool:
    """Whether one grant allows that, as the document says it."""
    if grant.right is Right.ADMIN:
        return True
    if grant.right is not right or grant.kind is not kind:
        return False
    if grant.pattern.endswith(EVERY):
        return name.startswith(grant.pattern[:-1])
    return grant.pattern == name


@given(GRANTS, st.sampled_from(Right), st.sampled_from(Kind), NAMES)
def test_rights_allow_exactly_what_one_of_the_grants_covers(
    grants: list[Grant], right: Right, kind: Kind, name: str
) -> None:
    assert Rights(grants).allow(right, kind, name) == any(
        covers(grant, right, kind, name) for grant in grants
    )


def test_what_no_grant_covers_is_refused() -> None:
    rights = Rights([checked_grant("produce", "topic", "orders")])
    assert rights.allow(Right.PRODUCE, Kind.TOPIC, "orders")
    assert not rights.allow(Right.PRODUCE, Kind.TOPIC, "orders-eu")
    assert not rights.allow(Right.CONSUME, Kind.TOPIC, "orders")
    assert not rights.allow(Right.PRODUCE, Kind.GROUP, "orders")
    assert rights.allow_any(Kind.TOPIC, "orders")
    assert not rights.allow_any(Kind.TOPIC, "other")
    assert not Rights([]).allow(Right.READ, Kind.QUEUE)
    assert ALL.allow(Right.ADMIN, Kind.QUEUE)


def test_a_grant_may_name_what_does_not_exist_yet() -> None:
    assert checked_grant("read", "topic", "not-yet-*") == Grant(Right.READ, Kind.TOPIC, "not-yet-*")


@pytest.mark.parametrize("pattern", ["", "a*b", "*a", "a/b", "a b", "ä", "a" * 250])
def test_a_pattern_is_a_name_or_its_beginning(pattern: str) -> None:
    with pytest.raises(InvalidName):
        checked_grant("read", "topic", pattern)


def test_a_role_is_rights_over_the_names_that_are_given() -> None:
    assert grants_of("consumer", {Kind.TOPIC: ["a"], Kind.GROUP: ["g*"]}) == [
        Grant(Right.CONSUME, Kind.GROUP, "g*"),
        Grant(Right.CONSUME, Kind.TOPIC, "a"),
    ]
    assert grants_of("monitor", {}) == [Grant(Right.READ, Kind.QUEUE, "*")]
    assert grants_of("admin", {}) == [Grant(Right.ADMIN, Kind.QUEUE, "*")]
    assert grants_of("manage", {Kind.TOPIC: ["a"]}) == [Grant(Right.MANAGE, Kind.TOPIC, "a")]


def test_a_right_over_nothing_and_an_unknown_one_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="over nothing"):
        grants_of("produce", {})
    with pytest.raises(InvalidRequest, match="neither a right nor a role"):
        grants_of("everything", {Kind.TOPIC: ["a"]})
    with pytest.raises(InvalidRequest, match="no right"):
        checked_grant("write", "topic", "a")
