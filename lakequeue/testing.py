"""An in-memory queue for tests: the real client, and a model of the services in this process.

`from lakequeue.testing import MemoryQueue`. Nothing is started, stored or sent. `pip install
'lakequeue[testing]'` brings what it needs beside the client (numpy, for the rules that the services
have too); neither Spark, Delta, Arrow, ZooKeeper nor Flask is loaded.
"""

from __future__ import annotations

from lakequeue.extras import brought_by

with brought_by("testing"):
    from memory_queue.clock import Clock
    from memory_queue.memory_queue import MemoryQueue

__all__ = ["Clock", "MemoryQueue"]
