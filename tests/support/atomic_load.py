"""Load that waits: atomic requests, each followed by a look at the log by a fresh reader."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from history_checker.history import Event, Outcome, Recorder
from lakequeue import Producer
from lakequeue.errors import LakequeueError
from lakequeue.records import Partition
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore

_PAUSE_S = 0.5


class AtomicLoad:
    """Batches of three records, two of them of one key, from a thread, until stopped."""

    def __init__(self, urls: Sequence[str], root: str, topic: str, folder: Path) -> None:
        self._urls = list(urls)
        self._root = QueueRoot.open(root, create=False)
        self._topic = topic
        self._recorder = Recorder(folder / "atomic.jsonl", "atomic")
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._looks = 0
        self._thread = threading.Thread(target=self._run, name="load-atomic", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the batch; raise what went wrong."""
        self._stop.set()
        self._thread.join(timeout=200)
        if self._thread.is_alive():
            raise TimeoutError("the atomic load did not end")
        self._recorder.close()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with Producer(self._urls, delivery_timeout_s=90) as producer:
                number = 0
                while not self._stop.wait(_PAUSE_S):
                    number += 1
                    self._send(producer, f"atomic-{number}")
                    self._look()
        except BaseException as e:  # noqa: BLE001 - handed to whoever stops the load
            self._failure = e

    def _send(self, producer: Producer, name: str) -> None:
        """Two of one key, then one of another."""
        values = [f"{name}-{n}" for n in range(3)]
        keys = [name, name, f"{name}-other"]

        def note(kind: Outcome, n: int, **said: Any) -> Event:
            return Event("send", kind, topic=self._topic, value=values[n], batch=name, **said)

        self._recorder.write(note("invoke", n, key=keys[n]) for n in range(3))
        try:
            with producer.atomic() as batch:
                for value, key in zip(values, keys, strict=True):
                    batch.send(self._topic, value, key=key, message_id=value)
        except LakequeueError as error:
            kind: Outcome = "fail" if error.stored == "no" else "info"
            self._recorder.write(note(kind, n) for n in range(3))
            return
        self._recorder.write(
            note("ok", n, part=d.partition, offset=-1 if d.offset is None else d.offset)
            for n, d in enumerate(batch.delivered)
        )

    def _look(self) -> None:
        """The ends of all partitions, as a reader that opens the log now sees them."""
        self._looks += 1
        proc = f"reader-{self._looks}"
        self._recorder.write([Event("snapshot_read", "invoke", proc=proc, topic=self._topic)])
        try:
            reader = LogReader(self._root)
            known = next(t for t in TopicStore(self._root).list() if t.topic == self._topic)
            slots = range(known.partitions)
            ends = [reader.end_offset(known.topic_id, Partition(n)) for n in slots]
        except (LakequeueError, OSError):
            # A power loss takes what is being read.
            self._recorder.write([Event("snapshot_read", "info", proc=proc, topic=self._topic)])
            return
        self._recorder.write(
            Event("snapshot_read", proc=proc, topic=self._topic, part=n, offset=end)
            for n, end in enumerate(ends)
        )
