"""Starting a process in little time, and what must be said before its first imports."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_KEPT_MS = 500


def keep_freed_memory() -> None:
    """Let Arrow keep what was freed for half a second; called before Arrow is imported.

    Nodes free tens of megabytes after each group and batch, and take them again some milliseconds
    later. By default they went back to the system in between, which had to clear every page anew:
    a fifth to a half of what the writing of files took. At the peak no more is held than before.
    What the environment says of it stays as it is. Processes that are started from here follow.
    """
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", str(_KEPT_MS))


@contextmanager
def importing() -> Iterator[None]:
    """What is imported stays to the end: look for no garbage meanwhile, nor in it later.

    Else a sixth to a third of a start goes into the search for what is not there.
    """
    keep_freed_memory()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
