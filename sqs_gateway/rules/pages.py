"""Lists that are given out a page at a time. Pure."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from sqs_gateway.rules.errors import SqsError, invalid
from sqs_gateway.rules.operations import MAX_LISTED
from sqs_gateway.rules.shapes import Input


def page_of(
    names: Sequence[str], given: Input, field: str, shown: Callable[[str], str]
) -> dict[str, Any]:
    """The next page of sorted `names`. A page without `MaxResults` is the last. Raises `SqsError`.

    The token is the last name that was told: what comes or goes meanwhile moves nothing else.
    """
    token, most = given.get("NextToken"), given.get("MaxResults")
    start = bisect_right(names, _after(token)) if token else 0
    some = list(names[start : start + (most or MAX_LISTED)])
    found: dict[str, Any] = {field: [shown(name) for name in some]} if some else {}
    if most is not None and start + len(some) < len(names):
        found["NextToken"] = base64.urlsafe_b64encode(some[-1].encode()).decode("ascii")
    return found


def _after(token: str) -> str:
    try:
        return base64.b64decode(token.encode("ascii"), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise _wrong(token) from None


def _wrong(token: str) -> SqsError:
    return invalid("NextToken", token, "Invalid or expired next token.")
