"""What a dead child still holds in ZooKeeper."""

from __future__ import annotations

import threading
from pathlib import Path

from coordination.zookeeper.session_reaper import close_dead_session
from lakequeue.settings import CoordinationSettings

_TRIES = 5


def close_soon(path: Path, settings: CoordinationSettings) -> None:
    """Close the session that the file at `path` names.

    A worker below the child needs some milliseconds more to be dead than the child itself.
    """
    pause = threading.Event()
    for _ in range(_TRIES):
        if close_dead_session(path, settings=settings) or not path.exists():
            return
        pause.wait(0.2)
