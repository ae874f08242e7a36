"""Names the extra that brings a package which is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """While it lasts, a module that is not there is one that this extra of lakequeue brings.

    The error stays a `ModuleNotFoundError`: programs and `pytest.importorskip` look for that.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"{missing.msg}; pip install 'lakequeue[{extra}]'", name=missing.name, path=missing.path
        ) from missing
