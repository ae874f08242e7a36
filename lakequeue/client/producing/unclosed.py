"""Producers that nobody closed: when the program ends, their records are still sent, or it is said.

Sending threads are daemons, so that a program ends although no node answers. Without this, whatever
they hold would go with them, without a word.
"""

from __future__ import annotations

import logging
import os
import threading
import time

from lakequeue.calling.blocking_runner import Signal
from lakequeue.client.producing.sender import Sender

_log = logging.getLogger("lakequeue.producer")
AT_EXIT_S = 10.0
"""How long the end of the program waits, for all producers together."""
_open: dict[int, tuple[Sender, Signal]] = {}
_lock = threading.Lock()
_keeper: threading.Thread | None = None


def _forked() -> None:
    """The producers of a parent are not the child's, nor is the thread that has the lock."""
    global _lock, _keeper
    _lock, _keeper = threading.Lock(), None
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def opened(core: Sender, signal: Signal) -> None:
    """It has begun to send."""
    global _keeper
    with _lock:
        _open[id(core)] = core, signal
        if _keeper is None or not _keeper.is_alive():
            # No atexit function: by then Python 3.12 starts no threads, which sending may need.
            _keeper = threading.Thread(target=_keep, name="lakequeue-producers-at-exit")
            _keeper.start()


def closed(core: Sender) -> None:
    """It holds nothing any more, or has said so."""
    with _lock:
        _open.pop(id(core), None)


def say_lost(count: int) -> None:
    """Warn that `count` records have not been acknowledged."""
    _log.warning(
        "%d records were not acknowledged when their producer came to its end; close it, or use "
        "it in a `with` block",
        count,
    )


def _keep() -> None:
    threading.main_thread().join()
    until = time.monotonic() + AT_EXIT_S
    with _lock:
        left = list(_open.values())
    for core, signal in left:
        core.flush(True)
        signal.wait_until(lambda core=core: not len(core.ledger), max(0, until - time.monotonic()))  # type: ignore[misc]
        if len(core.ledger):
            say_lost(len(core.ledger))
