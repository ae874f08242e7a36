"""Errors that came over the wire as problem+json (RFC 9457), as the exceptions they were."""

from __future__ import annotations

from typing import Any

from lakequeue.errors import LakequeueError, Rejected, TryAgain, UnsupportedMediaType, every


def from_problem(body: dict[str, Any], status: int) -> LakequeueError:
    """Rebuild the error that the other side raised from its problem+json `body`."""
    fallback: type[LakequeueError] = TryAgain if status >= 500 or status == 429 else Rejected
    if status == UnsupportedMediaType.http_status:
        # Also of a gateway: a client can send the same as JSON then.
        fallback = UnsupportedMediaType
    cls = every().get(str(body.get("code")), fallback)
    # The other names are those of the constructor: stored, retry_after_s, and what is extra.
    known = {"type", "title", "status", "code", "detail", "hint", "retryable"}
    given = {k: v for k, v in body.items() if k not in known}
    detail = str(body.get("detail") or f"HTTP {status}")
    return cls(detail, hint=str(body.get("hint") or ""), **given)
