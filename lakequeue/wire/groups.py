"""Members, delivery, acknowledgements and group state, on the consumer port."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from lakequeue.wire.limits import MAX_REQUEST_RECORDS, MAX_WAIT_MS
from lakequeue.wire.shapes import AnswerShape, RequestShape

GroupMode = Literal["stream", "queue"]
From = Literal["earliest", "latest"]
SeekTo = Literal["earliest", "latest", "committed", "offset", "time"]


class JoinRequest(RequestShape):
    """`POST /v1/groups/{group}/members`."""

    topics: list[str] = Field(min_length=1)
    mode: GroupMode = "stream"
    delivery: Literal["at_least_once", "at_most_once"] = "at_least_once"
    from_: From = Field("earliest", alias="from")
    """Where partitions without a position start. New partitions start at earliest, always."""
    session_timeout_ms: int | None = Field(None, ge=1_000, le=300_000)
    max_poll_interval_ms: int | None = Field(None, ge=1_000)
    on_out_of_range: Literal["earliest", "latest", "error"] = "earliest"
    """What to do when the position has expired (retention)."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Assigned(AnswerShape):
    """One partition of a member. `epoch` is null until its take-over has finished."""

    topic: str
    partition: int
    epoch: int | None = None
    generation: int = 0
    """Of the group's position: a seek raises it. For `consumed` of a produce request."""
    start: int | None = None
    """Offset that this ownership began at; the first delivered may be higher (retention)."""


class JoinAnswer(AnswerShape):
    """201: joined. The assignment may still be empty; polls tell it as it changes."""

    member_id: str
    assignment: list[Assigned] = Field(default_factory=list)
    assignment_version: int = 0
    session_timeout_ms: int


class HeartbeatAnswer(AnswerShape):
    """200 of a heartbeat; `assignment` as in a poll."""

    assignment: list[Assigned] | None = None
    assignment_version: int = 0


class PollQuery(RequestShape):
    """Query parameters of `GET …/records`."""

    max: int = Field(500, ge=1, le=MAX_REQUEST_RECORDS)
    wait_ms: int = Field(20_000, ge=0, le=MAX_WAIT_MS)
    after: int | None = Field(None, ge=0)
    """`poll` of the last answer that arrived, 0 before the first. Answers made since then were
    lost on the way: their records are delivered again. Without it a lost answer shows as
    `skipped_records` at the next ack."""


class PollAnswer(AnswerShape):
    """200 of a poll: records in offset order within each partition; empty after `wait_ms`.

    `assignment` is what the member owns at this answer: records of a partition that is not in it
    must not be processed any more. Null: as told before.
    """

    records: list[dict[str, Any]]
    assignment: list[Assigned] | None = None
    assignment_version: int = 0


class CommitPosition(RequestShape):
    """Commit by position: `offset` is the next one to deliver."""

    topic: str
    partition: int
    offset: int = Field(ge=0)
    epoch: int | None = None
    """Epoch under which the records were delivered; null: the member's current one."""


class Nack(RequestShape):
    """Queue groups: give a record back, to be delivered again after `delay_ms`."""

    receipt: str
    delay_ms: int = Field(0, ge=0)


class Extend(RequestShape):
    """Queue groups: keep a record for longer."""

    receipt: str
    visibility_timeout_ms: int = Field(ge=1)


class AckRequest(RequestShape):
    """`POST …/members/{member}/acks`.

    Stream groups: of several receipts of a partition the highest counts; a record below it that
    is neither committed nor in `acks` is `skipped_records`, unless `commit_through`.
    """

    acks: list[str] = Field(default_factory=list)
    commit_through: bool = False
    commit: list[CommitPosition] = Field(default_factory=list)
    nacks: list[Nack] = Field(default_factory=list)
    extend: list[Extend] = Field(default_factory=list)


class Committed(AnswerShape):
    """A position that is durable now: `offset` is the next one to deliver."""

    topic: str
    partition: int
    offset: int


class RefusedAck(AnswerShape):
    """A partition whose epoch has been superseded; nothing of it was committed."""

    topic: str
    partition: int
    epoch: int
    current_epoch: int | None = None


class AckAnswer(AnswerShape):
    """200: all of it is durable. A 409 problem carries `committed` and `refused` as well."""

    committed: list[Committed] = Field(default_factory=list)
    refused: list[RefusedAck] = Field(default_factory=list)


class PartitionState(AnswerShape):
    """One row of a group's description."""

    topic: str
    topic_id: str | None = None
    partition: int
    committed_offset: int | None = None
    """Next offset to deliver; null: nothing committed yet."""
    start_offset: int = 0
    """First offset that still exists."""
    end_offset: int
    """Offset that the next record will get."""
    lag: int
    owner: str | None = None
    """Member id."""
    node: str | None = None
    epoch: int | None = None
    lease_expires_ms: int | None = None
    """Milliseconds until the owner's lease ends if nothing renews it."""


class MemberState(AnswerShape):
    """A live member."""

    member_id: str
    topics: list[str] = Field(default_factory=list)
    node: str | None = None
    host: str | None = None
    partitions: int = 0


class GroupDescription(AnswerShape):
    """`GET /v1/groups/{group}`."""

    group: str
    mode: GroupMode = "stream"
    generation: int | None = None
    partitions: list[PartitionState]
    members: list[MemberState] = Field(default_factory=list)


class GroupSummary(AnswerShape):
    """One row of `GET /v1/groups`."""

    group: str
    mode: GroupMode = "stream"
    members: int = 0


class GroupList(AnswerShape):
    """`GET /v1/groups`, sorted by name."""

    groups: list[GroupSummary]


class SeekRequest(RequestShape):
    """`POST /v1/groups/{group}/seek`: the group must have no live member.

    `shift` is added to the position that `to` names, and the result is kept within what exists:
    `{"to": "latest", "shift": -10}` is the last ten of each partition,
    `{"to": "committed", "shift": -5}` goes back by five. With `topics` a group that does not
    exist yet is created at those positions.
    """

    to: SeekTo
    offset: int | None = Field(None, ge=0)
    time: int | None = None
    """Microseconds: the first record whose timestamp is not before it."""
    shift: int = 0
    topics: list[str] | None = None
    partition: int | None = Field(None, ge=0)
    dry_run: bool = False


class SeekMove(AnswerShape):
    """One partition of a seek."""

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


class SeekAnswer(AnswerShape):
    """200: with `dry_run`, what would change; else what has changed, durably."""

    executed: bool
    partitions: list[SeekMove]
