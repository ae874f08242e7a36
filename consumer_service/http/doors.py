"""What several calls ask of who calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from coordination.groups import membership
from coordination.zookeeper.session import Session
from queue_access.quotas import check_groups
from queue_access.rights import Kind, Right
from serving.doors.asked import caller, may_work


def may_begin(
    session: Session, group: str, topics: Iterable[str], dead_letters: str | None = None
) -> None:
    """Raise unless the caller may consume these topics, and make the group if there is none.

    Raises `Forbidden`, `OverQuota`. Groups count over whose names it has a right.
    """
    may_work(topics, dead_letters)
    who = caller()
    if who.quota.groups is None:
        return
    there = membership.groups(session)
    if group not in there:
        mine = sum(who.rights.allow_any(Kind.GROUP, name) for name in there)
        check_groups(who.quota, mine + 1)


def may_send() -> Callable[[str], bool]:
    """Whether the caller may send to a topic, for what goes on when the request is done with."""
    return partial(caller().rights.allow, Right.PRODUCE, Kind.TOPIC)
