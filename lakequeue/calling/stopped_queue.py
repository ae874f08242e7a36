"""A local root whose queue does not run: at the default port somebody else's may listen.

A node says which queue it serves (`GET /readyz`, which needs no key), and a root says which queue
it is (`_lakequeue/format.json`). Only if they agree, or if nothing contradicts, a client may go
there.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import httpx2

from lakequeue.calling import blocking_runner
from lakequeue.errors import Unreachable

_FORMAT = Path("_lakequeue") / "format.json"
_ANSWER_S = 1.0
"""For an answer of this machine."""


def check_default(url: str, root: Path, *, explicit: bool, option: str, setting: str) -> None:
    """Return if a client that looks for the queue at `root` may go to the default `url`.

    `explicit`: somebody has named the root. A root that nobody named need not have a queue, and its
    node may start later. Raises `Unreachable`.
    """
    if blocking_runner.is_mounted(url):
        return
    wanted = queue_id_of(root)
    if not explicit and wanted is None:
        return
    serves = queue_id_at(url)
    if serves == wanted and wanted is not None:
        return
    if serves is None and not explicit:
        return
    other = "" if serves is None else f", and {url} serves another queue"
    raise Unreachable(
        f"no queue runs at {root}{other}",
        hint=f"start it (`lakequeue up --root {root}`), name the root of a queue that runs "
        f"(LAKEQUEUE_ROOT), or say where its nodes are ({option}, {setting})",
    )


def queue_id_of(root: Path) -> str | None:
    """Which queue a local root is; None if it has none, or one that cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((root / _FORMAT).read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get("queue_id"), str):
            return str(found["queue_id"])
    return None


def queue_id_at(url: str) -> str | None:
    """Which queue a node serves; None if nobody answers, or not as a node does.

    It is asked without a key: a stranger must not get it.
    """
    args = blocking_runner.client_args({}, [url]) | {"auth": None, "timeout": _ANSWER_S}
    with contextlib.suppress(httpx2.HTTPError, ValueError), httpx2.Client(**args) as http:
        found = http.get(f"{url}/readyz").json()
        if isinstance(found, dict) and isinstance(found.get("queue_id"), str):
            return str(found["queue_id"])
    return None
