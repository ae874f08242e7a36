"""Who writes the files of `log`: each process notes itself, and one can be held there.

For processes that were started with `patching.environ("watched_writers", **{WRITERS: folder})`.
In the folder:

| file | is there when |
|---|---|
| `wrote-<pid>` | that process has written files of `log` |
| `hold` | the test has put it there: the next process that has written files takes it and waits |
| `owned-<pid>` | that process has taken `hold`; it never goes on, so kill it |
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.faults.patching import Patch

WRITERS = "QUEUE_TEST_WRITERS"


def pids(folder: Path, what: str) -> set[int]:
    """Of the processes that have noted `what`: "wrote" or "held"."""
    return {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{what}-*")}


def _watch(module: ModuleType) -> None:
    members: dict[str, Any] = vars(module)
    write = members["write_log_files"]

    def watched(*args: Any, **options: Any) -> Any:
        adds = write(*args, **options)
        folder = Path(os.environ[WRITERS])
        (folder / f"wrote-{os.getpid()}").touch()
        try:
            (folder / "hold").rename(folder / f"held-{os.getpid()}")
        except FileNotFoundError:
            return adds
        while True:
            signal.pause()

    members["write_log_files"] = watched


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "watched_writers": [("queue_tables.log.writer", _watch)],
}
