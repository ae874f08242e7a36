"""Somebody newer owns this: stop, and join again."""

from __future__ import annotations

from lakequeue.errors.base import LakequeueError


class Fenced(LakequeueError):
    """Somebody newer owns this: stop, and join again."""

    code = "fenced"
    http_status = 409
    exit_code = 10


class EpochSuperseded(Fenced):
    """The partition has a newer owner: join again, and deliver nothing from before."""

    code = "epoch_superseded"


class AttemptSuperseded(Fenced):
    """The receipt is not valid any more: its record is settled, or was delivered again."""

    code = "attempt_superseded"


class SentOn(Fenced):
    """This node has no partition of the group, or cannot read: join at the node that is named."""

    code = "sent_on"
    http_status = 307


class UnknownMember(Fenced):
    """The member has expired or never existed: join again, with a new member id."""

    code = "unknown_member"
    http_status = 404


class ProducerFenced(Fenced):
    """A newer instance of this producer has started: stop this one, it can send nothing more."""

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
    """The replica is a queue of its own now: mirror to another root."""

    code = "replica_promoted"


class ShardSealed(Fenced):
    """Another process has sealed the shard: open a new one."""

    code = "shard_sealed"
