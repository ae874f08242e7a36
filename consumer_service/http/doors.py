"""What several calls ask of who calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from flask import Flask, request

from consumer_service.node import Node
from coordination.groups import membership
from coordination.groups.pauses import read_pauses
from coordination.zookeeper.session import Session
from lakequeue.errors import LakequeueError
from lakequeue.wire import redrive_group
from queue_access.audit_line import without_secrets
from queue_access.quotas import check_groups
from queue_access.rights import Kind, Right
from queue_tables.groups.state import read_group_state
from serving.doors.asked import caller, may_work, was
from serving.front import wsgi


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


def tell_what_was(app: Flask, node: Node) -> None:
    """Put down for the audit what a change of a group finds: its webhook, or its settings."""

    @app.before_request
    def before() -> None:
        call = request.environ.get(wsgi.CALL)
        if call is None:
            return
        declared = call.request.call
        if declared is None or not declared.changes:
            return
        group, verb = call.request.about, declared.path.rpartition("/")[2]
        # Whatever is wrong: the call itself says so.
        with suppress(LakequeueError):
            if verb == "redrive":
                was({"positions": positions_of(node, redrive_group(group))})
            elif verb == "webhook":
                was(without_secrets(node.webhooks.get(group).model_dump()))
            elif verb in {"pause", "resume"}:
                was(pauses_of(node, group))
            elif (found := membership.group_config(node.session, group)) is not None:
                told = {"mode": found.mode, "options": dict(found.options)}
                moves = verb in {"seek", "purge"} or declared.method == "DELETE"
                was(told | ({"positions": positions_of(node, group)} if moves else {}))


def pauses_of(node: Node, group: str) -> dict[str, Any]:
    """What of a group is paused: all of it, and what differs."""
    rules, _ = read_pauses(node.session, group)
    scopes = {
        f"{topic}/{'*' if p is None else p}": said for (topic, p), said in rules.rules.items()
    }
    scopes.pop("None/*", None)
    return {"paused": rules.paused(), "but": scopes}


def positions_of(node: Node, group: str) -> dict[str, int | None]:
    """Where a group stands: `topic/partition` to its committed offset."""
    states = read_group_state(node.root, group).states
    return {
        f"{state.topic}/{key.partition}": state.committed_offset
        for key, state in sorted(states.items())
        if not state.deleted
    }
