"""Lists that are searched by name and turned page by page: what all of them have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from flask import request

PAGE = 100
Row = TypeVar("Row")


def chosen(rows: Iterable[Row], name: Callable[[Row], tuple[str, ...]]) -> dict[str, Any]:
    """What `list.html` shows: those whose name fits, by name. The name begins a row's sort key."""
    find = request.args.get("find", "").strip()
    fitting = [row for row in rows if find.casefold() in name(row)[0].casefold()]
    fitting.sort(key=name)
    first = max(0, request.args.get("from", 0, type=int))
    return {
        "rows": fitting[first : first + PAGE],
        "count": len(fitting),
        "first": first,
        "page": PAGE,
        "find": find,
        "path": request.path,
    }
