"""What several calls ask of who calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from flask import Flask, request

from consumer_service.node import Node
from coordination.groups import membership
from coordination.zookeeper.session import Session
from lakequeue.errors import LakequeueError
from queue_access.audit_line import without_secrets
from queue_access.quotas import check_groups
from queue_access.rights import Kind, Right
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
        if declared is None or not declared.changes or declared.kind is not Kind.GROUP:
            return
        group = call.request.about
        # Whatever is wrong: the call itself says so.
        with suppress(LakequeueError):
            if declared.path.endswith("/webhook"):
                was(without_secrets(node.webhooks.get(group).model_dump()))
            elif (found := membership.group_config(node.session, group)) is not None:
                was({"mode": found.mode, "options": dict(found.options)})
