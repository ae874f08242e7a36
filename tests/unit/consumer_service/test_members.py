"""Members of a node that stops."""

from __future__ import annotations

import pytest

from consumer_service.members import Members
from lakequeue.errors import NotReady
from lakequeue.wire import JoinRequest


def test_a_join_under_way_when_the_node_stops_is_sent_to_another_node() -> None:
    members = Members(10_000, 300_000)
    member = members.new("billing", JoinRequest(topics=["orders"]), "laptop")
    members.close()
    with pytest.raises(NotReady, match="this node is stopping"):
        members.joined(member)
