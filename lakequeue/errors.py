"""One tree of errors, the same classes on both sides of the wire.

Four branches tell what to do: `Rejected` fix the request, `Fenced` stop and rejoin, `TryAgain`
wait and retry, `Broken` page someone. Each class carries its `code`, `http_status`, `retryable` and
`exit_code` as data, and docs/errors.md is made from that. An instance adds `detail` (with the
numbers), `hint` (the remedy), and for produce and ack `stored` ("no", "unknown", or "yes" when only
waiting for it to be ordered failed). Rendered as RFC 9457 problem+json.
"""

# longer than 400 lines: one tree of errors, the same on both sides of the wire

from __future__ import annotations

from typing import Any, ClassVar, Literal

Stored = Literal["no", "unknown", "yes"]


class LakequeueError(Exception):
    """Base of every error that lakequeue raises on purpose."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    """What a command ends with that fails for it."""

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        stored: Stored | None = None,
        retry_after_s: float | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(f"{detail}; {hint}" if hint else detail)
        self.detail = detail
        self.hint = hint
        self.stored = stored
        self.retry_after_s = retry_after_s
        self.extra = extra

    def to_problem(self) -> dict[str, Any]:
        """The problem+json body: type, title, status, code, detail, hint, retryable, …"""
        body: dict[str, Any] = {
            "type": f"urn:lakequeue:error:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.http_status,
            "code": self.code,
            "detail": self.detail,
            "hint": self.hint,
            "retryable": self.retryable,
        }
        said = {"stored": self.stored, "retry_after_s": self.retry_after_s}
        return body | {k: v for k, v in said.items() if v is not None} | self.extra


def every() -> dict[str, type[LakequeueError]]:
    """Every error that there is, by its code."""
    found: dict[str, type[LakequeueError]] = {}
    classes: list[type[LakequeueError]] = [LakequeueError]
    while classes:
        one = classes.pop()
        found[one.code] = one
        classes += one.__subclasses__()
    return found


class Rejected(LakequeueError):
    """The request is wrong and will stay wrong: fix it before sending it again."""

    code = "rejected"
    http_status = 422
    exit_code = 8


class Fenced(LakequeueError):
    """Somebody newer owns this: stop, and join again."""

    code = "fenced"
    http_status = 409
    exit_code = 10


class TryAgain(LakequeueError):
    """Nothing is wrong with the request: wait `retry_after_s` and send it again."""

    code = "try_again"
    http_status = 503
    retryable = True
    exit_code = 9


class Broken(LakequeueError):
    """The installation needs a person: page someone."""

    code = "broken"
    http_status = 500


# -- Rejected -----------------------------------------------------------------------------------


class MalformedBody(Rejected):
    """The body cannot be parsed: send what the Content-Type says."""

    code = "malformed_body"
    http_status = 400


class InvalidRequest(Rejected):
    """A field has a wrong value: `record` (index, if any) and `field` name it."""

    code = "invalid_request"


class WrongUsage(InvalidRequest):
    """An option or argument cannot be read: nothing was asked of any service."""

    code = "wrong_usage"
    exit_code = 2


class InvalidName(Rejected):
    """Topic and group names are 1 to 249 characters of A-Z a-z 0-9 . _ -"""

    code = "invalid_name"


class UnknownTopic(Rejected):
    """Create the topic first: PUT /v1/topics/{topic}, or `lakequeue topic create`."""

    code = "unknown_topic"
    http_status = 404


class UnknownTable(Rejected):
    """The root has no table of that name: `lakequeue repair` lists them."""

    code = "unknown_table"
    http_status = 404


class UnknownWebhook(Rejected):
    """The group has no webhook: register one."""

    code = "unknown_webhook"
    http_status = 404


class UnknownGroup(Rejected):
    """No such group: it is created by its first member."""

    code = "unknown_group"
    http_status = 404


class UnknownRecord(Rejected):
    """No such record: it is not ordered yet, removed by retention, or of another partition."""

    code = "unknown_record"
    http_status = 404


class InvalidSetting(Rejected):
    """A setting that does not exist, or cannot have this value."""

    code = "invalid_setting"
    exit_code = 2


class TopicExists(Rejected):
    """A topic of this name has other settings: alter it, or choose another name."""

    code = "topic_exists"
    http_status = 409


class TooLarge(Rejected):
    """Record, request or count over its limit: send less at once."""

    code = "too_large"
    http_status = 413


class UnsupportedMediaType(Rejected):
    """Send JSON, NDJSON or an Arrow stream, plain, gzip or zstd."""

    code = "unsupported_media_type"
    http_status = 415


class SignatureInvalid(Rejected):
    """A delivery of a webhook is not signed by its secret: do not act on it."""

    code = "signature_invalid"
    http_status = 401


class NotOrdered(Rejected):
    """Acknowledged, and then not ordered: `reason` says why (its topic or partition is gone)."""

    code = "not_ordered"
    http_status = 409


class ResultBehind(Rejected):
    """The result table has less than the group has consumed: seek the group back to its mark."""

    code = "result_behind"
    http_status = 409


class GroupActive(Rejected):
    """The group has members: stop them (the owners are named) before seeking or deleting."""

    code = "group_active"
    http_status = 409


class GroupMismatch(Rejected):
    """The group has another mode or other options: join with those, or use another group."""

    code = "group_mismatch"
    http_status = 409


class OffsetOutOfRange(Rejected):
    """The offset is beyond the end, or below retention: seek to an offset that exists."""

    code = "offset_out_of_range"


class UndecodableRecord(Rejected):
    """The next record cannot be read, and the group stops at such (`undecodable`: "stop").

    Erase it, or seek the group past it.
    """

    code = "undecodable_record"
    http_status = 409


class SkippedRecords(Rejected):
    """An earlier record is not acked yet: ack in order, or say commit_through=True."""

    code = "skipped_records"
    http_status = 409


class UnknownName(Rejected):
    """No key, grant or issuer of that name: `lakequeue auth list` shows all."""

    code = "unknown_name"
    http_status = 404


class Unauthenticated(Rejected):
    """Say who you are: `Authorization: Bearer` with an API key, or a token that is good now."""

    code = "unauthenticated"
    http_status = 401


class Forbidden(Rejected):
    """You are known, and may not do this: `lakequeue auth grant` gives the right that is named."""

    code = "forbidden"
    http_status = 403


class ForeignPage(Rejected):
    """A web page of another origin asked: list it in `access.origins` if it may."""

    code = "foreign_page"
    http_status = 403


class WrongHost(Rejected):
    """The name in `Host` is none of this node's: use one, or list it in `access.hosts`."""

    code = "wrong_host"
    http_status = 421


# -- Fenced -------------------------------------------------------------------------------------


class EpochSuperseded(Fenced):
    """The partition has a newer owner: rejoin the group, deliver nothing more from before."""

    code = "epoch_superseded"


class AttemptSuperseded(Fenced):
    """Queue groups: a receipt is not good any more: its record is settled, or another's now."""

    code = "attempt_superseded"


class SentOn(Fenced):
    """This node has none of the group's partitions, or cannot read: join at the one named."""

    code = "sent_on"
    http_status = 307


class UnknownMember(Fenced):
    """The member expired or never was: join again, with a new member id."""

    code = "unknown_member"
    http_status = 404


class ProducerFenced(Fenced):
    """A newer instance of this producer has begun: stop this one, it can send nothing more."""

    code = "producer_fenced"


class ConsumedElsewhere(Fenced):
    """Another consumer has transformed these records (`current` is the next offset): join again.

    Where `current` equals the request's `next_offset`, they count exactly as far as here: go on.
    """

    code = "consumed_elsewhere"


class LeadershipLost(Fenced):
    """A newer leader has committed: end this term."""

    code = "leadership_lost"


class ReplicaPromoted(Fenced):
    """The replica is a queue of its own now: mirror into another root."""

    code = "replica_promoted"


class ShardSealed(Fenced):
    """The shard was sealed by another: open a new incarnation."""

    code = "shard_sealed"


# -- TryAgain -----------------------------------------------------------------------------------


class Overloaded(TryAgain):
    """The bound in memory is reached: wait Retry-After seconds."""

    code = "overloaded"
    http_status = 429


class TooSlow(TryAgain):
    """The request did not come in time: send it faster, or in smaller parts."""

    code = "too_slow"
    http_status = 408


class OverQuota(TryAgain):
    """The quota of this principal is used up: wait Retry-After seconds, or ask for a larger one."""

    code = "over_quota"
    http_status = 429


class IssuerUnavailable(TryAgain):
    """The keys of a token's issuer are not known now: try again in a moment."""

    code = "issuer_unavailable"


class StorageUnavailable(TryAgain):
    """Storage did not answer, or answered with an error: retry; idempotent sends stay single."""

    code = "storage_unavailable"


class StorageFull(TryAgain):
    """No space left on the storage: free some; nothing was half-written."""

    code = "storage_full"
    http_status = 507


class CoordinationUnavailable(TryAgain):
    """ZooKeeper is away: consumption stops until it is back; ingest goes on."""

    code = "coordination_unavailable"


class ClockSkew(TryAgain):
    """A clock is more than 5 s wrong: fix NTP on the node that is named."""

    code = "clock_skew"


class NotReady(TryAgain):
    """The service is starting, stopping, or cannot take work now; the detail says why."""

    code = "not_ready"


class TopicClosed(TryAgain):
    """The topic takes no records for a while, or has grown in this moment: send again."""

    code = "topic_closed"


class NotDrained(TryAgain):
    """The old partitions were not consumed in time; the topic is open again, and as it was."""

    code = "not_drained"


class Unreachable(TryAgain):
    """Client side: no node answers; check the URLs, or start the services."""

    code = "unreachable"


class OrderTimeout(TryAgain):
    """The records are stored, and were not ordered in time: ask again, or raise timeout_ms."""

    code = "order_timeout"
    http_status = 504


class CommitConflict(TryAgain):
    """Another process committed to the table first: refresh, judge again, retry."""

    code = "commit_conflict"
    http_status = 409

    @property
    def commits(self) -> tuple[Any, ...]:
        """The other's commits, oldest first, given as the extra `commits`."""
        return tuple(self.extra.get("commits", ()))

    def to_problem(self) -> dict[str, Any]:
        """As everywhere, without the commits: those are for this process only."""
        return {k: v for k, v in super().to_problem().items() if k != "commits"}


class TailLost(TryAgain):
    """The commits to tail were cleaned up: catch up from the snapshot, then tail on."""

    code = "tail_lost"


# -- Broken -------------------------------------------------------------------------------------


class SchemaDrift(Broken):
    """A table's schema is not the declared one: run the release that wrote it, or migrate it."""

    code = "schema_drift"
    exit_code = 4


class NewerFormat(Broken):
    """The root was written by a newer lakequeue: upgrade this one."""

    code = "newer_format"
    exit_code = 4


class RootUnusable(Broken):
    """The root cannot be written, or its atomic create does not work: choose another root."""

    code = "root_unusable"
    exit_code = 4


class CorruptTable(Broken):
    """A commit or data file is missing or damaged: `lakequeue doctor` names the table."""

    code = "corrupt_table"


class MissingDependency(Broken):
    """Something outside Python is missing (Java, jars): the hint says how to get it."""

    code = "missing_dependency"
    exit_code = 6


class PortInUse(Broken):
    """Another process listens on the port: stop it, or choose another port."""

    code = "port_in_use"
    exit_code = 3


class AlreadyRunning(Broken):
    """One `lakequeue up` serves a root: use the one that runs, or stop it."""

    code = "already_running"
    exit_code = 5


class StartFailed(Broken):
    """A service of `lakequeue up` did not become ready: the detail ends with its log."""

    code = "start_failed"
    exit_code = 7


class UnlockedDoors(Broken):
    """Others can reach the port, and no authentication is on: switch it on, or say that all may."""

    code = "unlocked_doors"
