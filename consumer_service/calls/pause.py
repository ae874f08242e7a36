"""Pausing and resuming a group, as the HTTP layer asks for it."""

from __future__ import annotations

from consumer_service.calls.seek import config_in
from consumer_service.node import Node
from coordination.groups import leases, membership
from coordination.groups.pauses import who_heard
from lakequeue.clock import boot_seconds
from lakequeue.errors import NotReady, UnknownGroup
from lakequeue.records import checked_name
from lakequeue.wire import PauseAnswer, PauseRequest
from queue_rules.groups.pause_responses import check_pause, response_of
from queue_rules.groups.pause_rules import PauseRules
from queue_tables.groups.state import read_group_state

WAIT_SESSIONS = 2.0
"""How long owners may take to hear of a pause, in session timeouts: a dead one is gone by then."""
LOOK_EVERY_S = 1.0


class Pausing:
    """Thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def pause(self, group: str, request: PauseRequest) -> PauseAnswer:
        """Deliver nothing of it any more; returns when all owners keep to that.

        Raises `UnknownGroup`, `UnknownTopic`, `InvalidRequest`; `NotReady` when an owner did not
        answer in time: the pause stands all the same, and the next call waits on.
        """
        rules, change = self._change(group, request, paused=True)
        self._wait(group, change)
        return response_of(group, rules)

    def resume(self, group: str, request: PauseRequest) -> PauseAnswer:
        """Deliver again. Errors as for `pause`."""
        rules, _ = self._change(group, request, paused=False)
        return response_of(group, rules)

    def _change(self, group: str, request: PauseRequest, *, paused: bool) -> tuple[PauseRules, int]:
        node = self._node
        checked_name(group, "group")
        self._check(request)
        if membership.group_config(node.session, group) is None:
            # ZooKeeper may have lost it: the tables know.
            states = read_group_state(node.root, group).states
            if not any(not state.deleted for state in states.values()):
                raise UnknownGroup(
                    f"group {group!r} does not exist", hint="its first member creates it"
                )
            kept = config_in(states)
            membership.ensure_group(node.session, group, kept.mode, kept.options, node.kept.begin)
        return node.kept.change_pauses(group, paused, request.topic, request.partitions)

    def _check(self, request: PauseRequest) -> None:
        self._node.topics.refresh()
        check_pause(request, self._node.topics.get)

    def _wait(self, group: str, change: int) -> None:
        """Until every owner of a partition of the group keeps to `change`."""
        session = self._node.session
        deadline = boot_seconds() + WAIT_SESSIONS * session.timeout_s
        changed = session.waker()
        while True:
            changed.clear()
            owners = leases.leases_of(session, group, changed)
            heard = who_heard(session, group, change, changed)
            late = sorted({e.owner.node for e in owners.values() if e.owner.shard not in heard})
            if not late:
                return
            left = deadline - boot_seconds()
            if left <= 0:
                raise NotReady(
                    f"group {group!r} is paused, and {', '.join(late)} did not say in time that "
                    "it keeps to that",
                    hint="call again to wait on; records may still come from there meanwhile",
                    retry_after_s=1.0,
                )
            changed.wait(min(left, LOOK_EVERY_S))
