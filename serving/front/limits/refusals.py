"""What a request beyond the bounds of a front is answered with."""

from __future__ import annotations

from lakequeue.errors import TooLarge
from serving.front.messages import Answer, problem_of

MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_AHEAD_REQUESTS = 16
"""What a client may ask before it has the answer to what it asked before."""


def head_too_large() -> Answer:
    """431, for heads and for requests that come too far ahead."""
    answer = problem_of(
        TooLarge(
            f"the head of a request has more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers, "
            f"or more than {MAX_AHEAD_REQUESTS} requests came ahead of their answers",
            hint="send fewer and shorter headers",
            stored="no",
        )
    )
    answer.status = 431
    return answer


def body_too_large(most: int) -> TooLarge:
    """413 for a whole body."""
    return TooLarge(
        f"the body is larger than {most} bytes",
        hint="send fewer records, or acks, in one request",
        stored="no",
    )
