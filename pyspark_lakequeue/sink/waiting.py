"""After a batch write: waiting until its rows are ordered, so that whoever reads next has them."""

from __future__ import annotations

import logging
import threading
import time

from lakequeue.errors import LakequeueError
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.shards.bulk import newest_stamps

_log = logging.getLogger("lakequeue.spark")


def wait_ordered(root: QueueRoot, writer: str, timeout_s: float) -> bool:
    """Wait until all that `writer` has committed is ordered, at most so long; whether it is.

    The rows are durable already, so nothing is raised: who ran the write again because of that
    would store them twice.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.02 if root.store.local_path else 0.1
    try:
        wanted = {
            WATERMARKS.name(shard): stamp for shard, stamp in newest_stamps(root, writer).items()
        }
        marks = LogMarks(root)
        while True:
            found = marks.read(*wanted)
            if all(found.get(name, 0) >= stamp for name, stamp in wanted.items()):
                return True
            if time.monotonic() >= deadline:
                break
            threading.Event().wait(pause_s)
        why = f"not ordered after {timeout_s:g} s: no order job runs, or it is behind"
    except (LakequeueError, OSError) as error:
        why = f"not known to be ordered: {error}"
    _log.warning(
        "the rows of this write are stored, and %s. They will be ordered, and can be read then; do "
        'not write them again. Start the order job, raise timeoutMs, or do not wait: "wait", '
        '"committed"',
        why,
    )
    return False
