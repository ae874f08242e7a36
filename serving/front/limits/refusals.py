"""What a request beyond the bounds of a front is answered with."""

from __future__ import annotations

from lakequeue.errors import InvalidRequest, LakequeueError, MalformedBody, NotReady, TooLarge
from serving.front.messages import Answer, problem_of

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_BARE_BYTES = 128 << 10
"""Of a body that are no content, in a row: trailers, extensions of chunks. A read has 64 KiB."""
MAX_AHEAD_REQUESTS = 16
"""What a client may ask before it has the answer to what it asked before."""
_SEE = "see /openapi.json"


def head_too_large() -> Answer:
    """431, for heads and for requests that come too far ahead."""
    return _with_status(
        431,
        TooLarge(
            f"the head of a request has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers, "
            f"or more than {MAX_AHEAD_REQUESTS} requests came ahead of their answers",
            hint="send fewer and shorter headers",
            stored="no",
        ),
    )


def trailers_too_large() -> Answer:
    """431, for what a body has beside its content."""
    return _with_status(
        431,
        TooLarge(
            f"more than {MAX_BARE_BYTES} bytes of the body in a row are trailers or extensions of "
            "chunks",
            hint="send neither: they are not read",
            stored="no",
        ),
    )


def body_too_large(most: int) -> TooLarge:
    """413 for a whole body."""
    return TooLarge(
        f"the body is larger than {most} bytes",
        hint="send fewer records, or acks, in one request",
        stored="no",
    )


def no_http(why: object) -> Answer:
    """400: what comes cannot be told apart."""
    return problem_of(MalformedBody(f"this is not HTTP: {why}", hint=_SEE, stored="no"))


def not_implemented(what: str) -> Answer:
    """501, for what HTTP has and we do not."""
    said = f"this service has no {what}"
    return _with_status(501, InvalidRequest(said, hint=_SEE, stored="no"))


def not_known_within(seconds: float) -> Answer:
    """503, for what is held up."""
    return problem_of(
        NotReady(
            f"this was not known within {seconds:g} s",
            hint="storage or ZooKeeper may hang: see the log of this node",
            retry_after_s=1.0,
        )
    )


def _with_status(status: int, error: LakequeueError) -> Answer:
    """An error under a status that is HTTP's own."""
    error.http_status = status  # type: ignore[misc]
    return problem_of(error)
