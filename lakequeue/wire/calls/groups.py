"""Members, delivery, acknowledgements and group state, on the consumer port."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from lakequeue.wire.calls.retries import (
    ATTEMPTS,
    BACKOFF,
    BACKOFF_JITTER,
    BACKOFF_MAX,
    of_group,
)
from lakequeue.wire.declared import Setting, SettingsRequest
from lakequeue.wire.limits import (
    DEFAULT_MAX_IN_FLIGHT,
    DEFAULT_VISIBILITY_MS,
    MAX_IN_FLIGHT,
    MAX_NACK_REASON,
    MAX_NAMED_TOPICS,
    MAX_PREDICATE_CHARS,
    MAX_REQUEST_RECORDS,
    MAX_SPAN_MS,
    MAX_VISIBILITY_MS,
    MAX_WAIT_MS,
)
from lakequeue.wire.shapes import AnswerShape, Items, RequestShape

GroupMode = Literal["stream", "queue"]
From = Literal["earliest", "latest"]
Ordering = Literal["none", "key"]
Undecodable = Literal["dead_letter", "tombstone", "skip", "stop"]


class GroupOptions(SettingsRequest):
    """The options of a group: the one declaration.

    Kept from the first member on. All but `predicate` and `undecodable` are for queue groups. A
    topic's own retry policy comes before the group's.
    """

    visibility_timeout_ms: Annotated[
        int | None,
        Setting(
            "how long a consumer may keep a record before it goes to another",
            least=100,
            most=MAX_VISIBILITY_MS,
            stands_for=DEFAULT_VISIBILITY_MS,
            of_queues=True,
            option="--visibility",
        ),
    ] = None
    max_attempts: Annotated[int | None, of_group(ATTEMPTS)] = None
    ordering: Annotated[
        Ordering | None,
        Setting(
            "key: the next record of a key comes only after the one before it is acked or dead",
            stands_for="none",
            of_queues=True,
        ),
    ] = None
    backoff_ms: Annotated[int | None, of_group(BACKOFF)] = None
    backoff_max_ms: Annotated[int | None, of_group(BACKOFF_MAX)] = None
    backoff_jitter_percent: Annotated[int | None, of_group(BACKOFF_JITTER)] = None
    dead_letter_topic: Annotated[
        str | None,
        Setting(
            "topic that dead records go to",
            stands_for="the topic's, or <topic>.dlq",
            of_queues=True,
        ),
    ] = None
    predicate: Annotated[
        str | None,
        Setting(
            "only records that match this SQL condition",
            least=1,
            most=MAX_PREDICATE_CHARS,
            option="--where",
        ),
    ] = None
    undecodable: Annotated[
        Undecodable | None,
        Setting(
            "what becomes of a record that cannot be read. dead_letter: to the dead letters (the"
            " default of queue groups); tombstone: delivered without key and value (that of stream"
            " groups); skip: passed over; stop: the partition stops before it (stream groups)",
            stands_for="dead_letter, in stream groups tombstone",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The options that were given."""
        names = GroupOptions.model_fields
        return {n: v for n in names if (v := getattr(self, n)) is not None}


class JoinRequest(GroupOptions):
    """`POST /v1/groups/{group}/members`. The group's options are for queue groups."""

    topics: Items[str] = Field(min_length=1, max_length=MAX_NAMED_TOPICS)
    mode: GroupMode = "stream"
    delivery: Literal["at_least_once", "at_most_once"] = "at_least_once"
    from_: From = Field("earliest", alias="from")
    """Where partitions without a position start. New partitions start at earliest, always."""
    session_timeout_ms: int | None = Field(None, ge=1_000, le=300_000)
    max_poll_interval_ms: int | None = Field(None, ge=1_000)
    on_out_of_range: Literal["earliest", "latest", "error"] = "earliest"
    """What to do when the position has expired (retention)."""
    max_in_flight: Annotated[
        int | None,
        Setting(
            "most records that this member may have at once",
            least=1,
            most=MAX_IN_FLIGHT,
            stands_for=DEFAULT_MAX_IN_FLIGHT,
            of_queues=True,
        ),
    ] = None
    gapless: bool | None = None
    """Stream groups: this member's positions go with results, as those of transforms do. What has
    expired is then passed together with the next record, and not before."""

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
    visibility_timeout_ms: int | None = None
    """Queue groups: how long a record may be kept without renewal."""
    predicate: str | None = None
    """Of the group: it has no other records than those for which it is true."""


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


class LeaveQuery(RequestShape):
    """Query parameters of `DELETE …/members/{member}`."""

    after: int | None = Field(None, ge=0)
    """As in a poll: `poll` of the last answer that arrived. In queue groups, records of later ones
    have had no attempt."""


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
    delay_ms: int | None = Field(None, ge=0, le=MAX_SPAN_MS)
    """Null: as the retry policy says."""
    reason: str | None = Field(None, max_length=MAX_NACK_REASON)
    """Why, in words. If this ends the last attempt, the dead letter has it as a header."""
    unopened: bool = False
    """True: nobody has looked at the record. The attempt does not count against `max_attempts`, and
    `delay_ms` null means at once. Its number is used up all the same."""


class Extend(RequestShape):
    """Queue groups: keep a record for longer, from now on."""

    receipt: str
    visibility_timeout_ms: int = Field(ge=1, le=MAX_VISIBILITY_MS)
    may_shorten: bool = False
    """True: from now on, also if it was kept for longer until now. False: never for less long."""


class AckRequest(RequestShape):
    """`POST …/members/{member}/acks`.

    Stream groups: of several receipts of a partition the highest counts; a record below it that
    is neither committed nor in `acks` is `skipped_records`, unless `commit_through`.
    """

    acks: Items[str] = Field(default_factory=list)
    late_acks: bool = False
    """Queue groups. True: an ack counts also after its deadline, unless the record was delivered
    again. False: it is refused."""
    commit_through: bool = False
    commit: Items[CommitPosition] = Field(default_factory=list)
    nacks: Items[Nack] = Field(default_factory=list)
    extend: Items[Extend] = Field(default_factory=list)


class Committed(AnswerShape):
    """A position that is durable now: `offset` is the next one to deliver."""

    topic: str
    partition: int
    offset: int


class Settled(AnswerShape):
    """Queue groups: what a receipt has brought about, durably."""

    receipt: str
    deadline: int | None = None
    """After an extension: until when the record is kept. Microseconds."""
    due: int | None = None
    """After a nack: when it is delivered again; null: it is dead. Microseconds."""


RefusedWhy = Literal[
    "superseded",
    "timed_out",
    "settled",
    "unknown",
    "other_group",
    "elsewhere",
    "topic_deleted",
    "group_deleted",
]


class RefusedReceipt(AnswerShape):
    """Queue groups: a receipt that is not good, and the numbers of it."""

    receipt: str
    topic: str
    partition: int
    offset: int
    why: RefusedWhy
    attempt: int
    """The attempt that was presented."""
    current_attempt: int | None = None
    """The newest one, as far as it is known."""
    deadline: int | None = None
    """When the presented attempt has timed out. Microseconds."""
    location: str | None = None
    """elsewhere: base URL of the node that has the partition. Send it there."""


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


class SettleAnswer(AnswerShape):
    """200 in a queue group: all of it is durable. A 409 carries `settled` and `refused`."""

    settled: list[Settled] = Field(default_factory=list)
    refused: list[RefusedReceipt] = Field(default_factory=list)


class PartitionState(AnswerShape):
    """One row of a group's description."""

    topic: str
    topic_id: str | None = None
    partition: int
    committed_offset: int | None = None
    """Next offset to deliver; null: nothing committed yet. Queue groups: the first never seen."""
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
    in_flight: int | None = None
    """Queue groups: records with a consumer, or returned and not delivered again yet."""
    parked: int | None = None
    """Queue groups: records that rest until they are due."""
    dying: int | None = None
    """Queue groups: records on their way to the dead-letter topic."""
    dying_because: str | None = None
    """Queue groups: why the dead-letter topic does not take them. Null: it does, or another node
    has the partition."""
    dying_since: int | None = None
    """Since when, in microseconds."""
    held_back: str | None = None
    """Queue groups: why records that are new wait: too many are open. Null: they do not."""
    paused: bool = False
    """Nothing of it is delivered, until it is resumed."""


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
    options: dict[str, Any] | None = None
    """What was given when the group was made; null: a stream group without a predicate."""
    generation: int | None = None
    paused: bool = False
    """The group as a whole; its partitions say each for itself."""
    partitions: list[PartitionState]
    members: list[MemberState] = Field(default_factory=list)

    @property
    def lag(self) -> int:
        """Records that the group has not done yet, in all partitions."""
        return sum(one.lag for one in self.partitions)

    @property
    def waiting(self) -> int:
        """Those of them that no worker has, and that are not delayed: a worker could get them now.

        In a stream group it is the lag.
        """
        rest = ((one.in_flight or 0) + (one.parked or 0) for one in self.partitions)
        return max(0, self.lag - sum(rest))


class GroupSummary(AnswerShape):
    """One row of `GET /v1/groups`."""

    group: str
    mode: GroupMode = "stream"
    members: int = 0


class GroupList(AnswerShape):
    """`GET /v1/groups`, sorted by name."""

    groups: list[GroupSummary]
