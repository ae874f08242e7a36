"""The request is wrong: fix it before sending it again."""

from __future__ import annotations

from lakequeue.errors.base import LakequeueError


class Rejected(LakequeueError):
    """The request is wrong and will stay wrong: fix it before sending it again."""

    code = "rejected"
    http_status = 422
    exit_code = 8


class MalformedBody(Rejected):
    """The body cannot be parsed: send what the Content-Type says."""

    code = "malformed_body"
    http_status = 400


class InvalidRequest(Rejected):
    """A field has a wrong value: `record` (index, if any) and `field` name it."""

    code = "invalid_request"


class WrongUsage(InvalidRequest):
    """An option or argument is wrong. No service was called."""

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
    """There is no such group: its first member creates it."""

    code = "unknown_group"
    http_status = 404


class UnknownRecord(Rejected):
    """There is no such record: it is not ordered yet, expired, or in another partition."""

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
    """The record was acknowledged, then not ordered: `reason` says why (its topic is gone, say)."""

    code = "not_ordered"
    http_status = 409


class ResultBehind(Rejected):
    """The group has consumed more than its result table has: seek it back to the table's mark."""

    code = "result_behind"
    http_status = 409


class GroupActive(Rejected):
    """The group has members: stop them (the owners are named) before seeking or deleting."""

    code = "group_active"
    http_status = 409


class GroupMismatch(Rejected):
    """The group has another mode or other options: use those, or another group."""

    code = "group_mismatch"
    http_status = 409


class OffsetOutOfRange(Rejected):
    """The offset is beyond the end, or below retention: seek to an offset that exists."""

    code = "offset_out_of_range"


class UndecodableRecord(Rejected):
    """The next record cannot be read, and the group stops at it (`undecodable` is "stop").

    Erase it, or seek the group past it.
    """

    code = "undecodable_record"
    http_status = 409


class SkippedRecords(Rejected):
    """An earlier record is not acked yet: ack in order, or pass commit_through=True."""

    code = "skipped_records"
    http_status = 409


class UnknownName(Rejected):
    """No key, grant or issuer of that name: `lakequeue auth list` shows all."""

    code = "unknown_name"
    http_status = 404


class Unauthenticated(Rejected):
    """Say who you are: send `Authorization: Bearer` with an API key or a valid token."""

    code = "unauthenticated"
    http_status = 401


class Forbidden(Rejected):
    """You are known, but you lack a right: the error names the `lakequeue auth grant` for it."""

    code = "forbidden"
    http_status = 403


class ForeignPage(Rejected):
    """A web page of another origin sent this: if it may, list it in `access.origins`."""

    code = "foreign_page"
    http_status = 403


class WrongHost(Rejected):
    """The name in `Host` is not this node's: use one of its own, or add it to `access.hosts`."""

    code = "wrong_host"
    http_status = 421
