"""The order job and the offsets job without Spark, in threads of the test while a block lasts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import structlog

from coordination.zookeeper.notifications import Notifier
from jobs.folding import offsets_job
from queue_tables.root import QueueRoot
from tests.support.runs.fold_process import Folder
from tests.support.runs.order_process import Orderer

_PAUSE_S = 0.01
_FOLD_EVERY_S = 1.0
_CUT_BYTES = 64 << 20


@contextmanager
def _beside(name: str, every_s: float, begin: Callable[[], Callable[[], object]]) -> Iterator[None]:
    """Do what `begin` returns again and again in a thread, until the end of the block.

    Its error, or that of `begin`, is raised at the end of the block.
    """
    stop = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            step = begin()
            while not stop.wait(every_s):
                step()
        except BaseException as error:  # noqa: BLE001 -- raised in the test's thread
            errors.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    if errors:
        raise errors[0]


@contextmanager
def ordering(root: QueueRoot, epoch: int = 1, notifier: Notifier | None = None) -> Iterator[None]:
    """Order whatever comes into the inbox, and ring; the end of the block finishes a batch.

    An error of the order job is raised at the end of the block.
    """

    def begin() -> Callable[[], object]:
        orderer = Orderer(root, epoch)

        def step() -> None:
            if orderer.drain() and notifier is not None:
                notifier.notify(orderer.state.log.version)

        return step

    with _beside("order-thread", _PAUSE_S, begin):
        yield


@contextmanager
def folding(root: QueueRoot, epoch: int = 1) -> Iterator[None]:
    """Fold the journals again and again, as a driver does.

    Without it each node that takes a partition over reads all that was ever acked on this queue: a
    test costs more, the more tests there were before it.
    What it logs is dropped: tests read what this process prints.
    An error of the offsets job is raised at the end of the block.
    """
    with (
        patch.object(offsets_job, "log", structlog.wrap_logger(structlog.ReturnLogger())),
        _beside("fold-thread", _FOLD_EVERY_S, lambda: Folder(root, epoch, _CUT_BYTES).drain),
    ):
        yield
