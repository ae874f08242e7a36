"""A membership of a consumer, and how it fetches and acknowledges."""

from __future__ import annotations

from dataclasses import dataclass

from lakequeue.calling.nodes import Nodes
from lakequeue.wire import Assigned


@dataclass(slots=True)
class Membership:
    """A membership: valid at one node."""

    member_id: str
    nodes: Nodes
    session_timeout_s: float
    last_contact: float
    last_poll: int = 0
    """Number of the last answer to a poll that arrived."""
    told: int = 0
    """Polls that have said what the member owns."""
    assignment: list[Assigned] | None = None
    """What they have told last, whatever else has changed it since: an answer to a poll without an
    assignment means this one. None: the next has to tell."""


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """How to fetch and acknowledge."""

    max_poll_records: int = 1000
    paced: bool = False
    """Fetch ahead only what the application works through in a moment."""
    wait_ms: int = 5_000
    ack_interval_s: float = 0.05
    connect_timeout_s: float = 30.0
    stop_after: int | None = None
    """Hand out so many records in all, and fetch none beyond them."""
