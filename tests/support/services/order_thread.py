"""The order job without Spark, running in a thread of the test for as long as a block lasts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from coordination.zookeeper.notifications import Notifier
from queue_tables.root import QueueRoot
from tests.support.runs.order_process import Orderer

_PAUSE_S = 0.01


@contextmanager
def ordering(root: QueueRoot, epoch: int = 1, notifier: Notifier | None = None) -> Iterator[None]:
    """Order whatever comes into the inbox, and ring; the end of the block finishes a batch.

    An error of the order job is raised at the end of the block.
    """
    stop = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            orderer = Orderer(root, epoch)
            while not stop.wait(_PAUSE_S):
                if orderer.drain() and notifier is not None:
                    notifier.notify(orderer.state.log.version)
        except BaseException as error:  # noqa: BLE001 -- raised in the test's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="order-thread")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    if errors:
        raise errors[0]
