"""Nothing is wrong with the request: wait, and send it again."""

from __future__ import annotations

from typing import Any

from lakequeue.errors.base import LakequeueError


class TryAgain(LakequeueError):
    """Nothing is wrong with the request: wait `retry_after_s` and send it again."""

    code = "try_again"
    http_status = 503
    retryable = True
    exit_code = 9


class Overloaded(TryAgain):
    """A limit of memory is reached: wait Retry-After seconds."""

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
    """The keys of the token's issuer are not known at the moment: try again soon."""

    code = "issuer_unavailable"


class StorageUnavailable(TryAgain):
    """The storage did not answer, or gave an error: retry. Idempotent sends are stored once."""

    code = "storage_unavailable"


class StorageFull(TryAgain):
    """The storage has no space left: free some. Nothing is half-written."""

    code = "storage_full"
    http_status = 507


class CoordinationUnavailable(TryAgain):
    """ZooKeeper does not answer: consumption stops until it is back; ingest continues."""

    code = "coordination_unavailable"


class ClockSkew(TryAgain):
    """A clock is more than 5 s wrong: fix NTP on the node that is named."""

    code = "clock_skew"


class NotReady(TryAgain):
    """The service is starting, stopping, or cannot take work now; the detail says why."""

    code = "not_ready"


class TopicClosed(TryAgain):
    """The topic takes no records for a while, or has just grown: send again."""

    code = "topic_closed"


class NotDrained(TryAgain):
    """Groups did not consume the old partitions in time. The topic is open again and unchanged."""

    code = "not_drained"


class Unreachable(TryAgain):
    """No node answers the client: check the URLs, or start the services."""

    code = "unreachable"


class OrderTimeout(TryAgain):
    """The records are stored but were not ordered in time: ask again, or raise timeout_ms."""

    code = "order_timeout"
    http_status = 504


class CommitConflict(TryAgain):
    """Another process committed to the table first: read its commits, check again, retry."""

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
    """The next commits were cleaned up: read the snapshot, and continue from there."""

    code = "tail_lost"
