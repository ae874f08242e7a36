"""The topics as a node sees them: a second behind at most, and never in the way of a send.

Storage may hang. A send to a topic that is known waits for a look at the table only briefly, and
then goes on with what was read last, as it does when the look fails.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import structlog

from lakequeue.errors import LakequeueError, StorageUnavailable
from queue_tables.schema.topic_rules import Topic, unknown_topic
from queue_tables.topics import TopicStore

log = structlog.get_logger("topics")

FRESH_S = 1.0
KNOWN_WAITS_S = 0.25
UNKNOWN_WAITS_S = 5.0


class NotInMemory(Exception):
    """Storage has to be asked, or the topic's schema judges values: not in the event loop."""


class FreshTopics:
    """Thread-safe."""

    def __init__(self, topics: TopicStore) -> None:
        self._topics = topics
        self._looked_at = time.monotonic()
        self._lock = threading.Lock()
        self._look: Future[bool] | None = None
        """A look at the table that is under way."""

    @property
    def _fresh(self) -> bool:
        return time.monotonic() - self._looked_at <= FRESH_S

    def in_memory(self, name: str) -> Topic:
        """The topic, without a look at storage. Raises `NotInMemory`."""
        topic = self._topics.known(name) if self._fresh else None
        if topic is None or topic.value_schema is not None:
            raise NotInMemory
        return topic

    def get(self, name: str) -> Topic:
        """The topic. Raises `UnknownTopic`, `StorageUnavailable`, both with `stored`."""
        topic = self._topics.known(name)
        if topic is not None and self._fresh:
            return topic
        try:
            self._see(KNOWN_WAITS_S if topic is not None else UNKNOWN_WAITS_S)
        except LakequeueError as error:
            if topic is None:
                error.stored = "no"
                raise
            log.info("topics.read_failed", why=error.detail)
        topic = self._topics.known(name)
        if topic is None:
            missing = unknown_topic(name)
            missing.stored = "no"
            raise missing
        return topic

    def _see(self, patience_s: float) -> None:
        """Look at the table; many that want to share one look."""
        with self._lock:
            # Also if it fails or hangs: the others need not wait for the same.
            self._looked_at = time.monotonic()
            look = self._look
            if look is None:
                self._look = look = Future()
                threading.Thread(
                    target=self._refresh, args=(look,), name="topics-look", daemon=True
                ).start()
        try:
            look.result(patience_s)
        except TimeoutError:
            raise StorageUnavailable(
                f"the table topics could not be read within {patience_s:g} s",
                hint="storage may hang: see the log of this node; try again",
                stored="no",
            ) from None

    def _refresh(self, look: Future[bool]) -> None:
        try:
            found = self._topics.refresh()
        except BaseException as error:  # noqa: BLE001 -- raised where the result is asked for
            self._end()
            look.set_exception(error)
        else:
            self._end()
            look.set_result(found)

    def _end(self) -> None:
        with self._lock:
            self._look = None
