"""Errors of the caller, without the frames of this package. Imports nothing: see `__init__`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def plainly(call: Callable[P, T]) -> Callable[P, T]:
    """Let a request that is wrong say so alone.

    Spark prints the traceback of a Python source before the message. Twenty lines of our own files
    hide the one that says what to do. Other errors keep them: they are for us.
    """

    @wraps(call)
    def plain(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            from lakequeue.errors import Rejected

            if not isinstance(error, Rejected):
                raise
            refused = error.with_traceback(None)
        raise refused from None

    return plain
