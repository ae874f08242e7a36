"""Records: look at them, ask what became of them, send dead ones back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from lakequeue.client.admin.calls import (
    ServiceCalls,
    answer_of,
    answer_with_records,
    checked,
    path_of_group,
    path_of_topic,
)
from lakequeue.client.record import Record
from lakequeue.wire import BrowseAnswer, BrowseQuery, RecordStatus, TopicCounts, loads_exactly

if TYPE_CHECKING:
    from lakequeue.client.redriven import DeadLetters, Redriven, Wanted


@dataclass(frozen=True, slots=True)
class Page:
    """A range of offsets of one partition."""

    partition: int
    records: list[Record]
    next_offset: int
    """Where to go on."""
    end_offset: int
    """Offset that the next record of the partition will get."""

    @property
    def more(self) -> bool:
        """Whether there is something at `next_offset` already."""
        return self.next_offset < self.end_offset


class RecordCalls(ServiceCalls):
    """What `Admin` does with records."""

    def browse(
        self,
        topic: str,
        partition: int | None = None,
        *,
        key: str | None = None,
        offset: int | None = None,
        time: int | datetime | None = None,
        max_records: int = 100,
    ) -> Page:
        """Look at records without a group.

        One call looks at a limited number of records. Go on at `next_offset` while `more` is true.

        Args:
            topic: Name of the topic.
            partition: The partition; not needed with `key`.
            key: Only records with this key.
            offset: Begin at this offset.
            time: Begin at this time: a datetime with a zone, or microseconds since 1970 UTC.
            max_records: How many records to return at most.

        Returns:
            The records, and where to go on.

        Raises:
            UnknownTopic: There is no such topic.
            OffsetOutOfRange: The offset is not in the log.
        """
        given = {"partition": partition, "key": key, "offset": offset, "time": time}
        query = checked(BrowseQuery, given | {"max": max_records}).model_dump(exclude_none=True)
        path = f"{path_of_topic(topic)}/records?{urlencode(query)}"
        answer = answer_with_records(BrowseAnswer, self._call(self._consumer, "GET", path))
        records = [Record(raw) for raw in answer.records]
        return Page(answer.partition, records, answer.next_offset, answer.end_offset)

    def record(self, topic: str, partition: int, offset: int) -> Record:
        """Get one record.

        Args:
            topic: Name of the topic.
            partition: Its partition.
            offset: Its offset.

        Returns:
            The record.

        Raises:
            UnknownTopic: There is no such topic.
            OffsetOutOfRange: The offset is not in the log.
        """
        path = f"{path_of_topic(topic)}/partitions/{partition}/records/{offset}"
        return Record(loads_exactly(self._call(self._consumer, "GET", path).body))

    def status(self, group: str, topic: str, partition: int, offset: int) -> RecordStatus:
        """Ask what happened to a record in a group.

        Args:
            group: Name of the group.
            topic: Name of the topic.
            partition: Partition of the record.
            offset: Offset of the record.

        Returns:
            Its status: pending, in flight (with which member), acked, dead, …

        Raises:
            UnknownTopic: There is no such topic.
            UnknownRecord: There is no such record.
            UnknownGroup: There is no such group.
        """
        path = f"{path_of_group(group)}{path_of_topic(topic).removeprefix('/v1')}"
        path += f"/partitions/{partition}/records/{offset}"
        return answer_of(RecordStatus, self._call(self._consumer, "GET", path))

    def counts(self, group: str, topic: str) -> TopicCounts:
        """Count the records of a topic that a group has not settled.

        It counts as of now, whether anybody consumes or not.

        Args:
            group: Name of the group. If it does not exist, it is counted as a new one.
            topic: Name of the topic.

        Returns:
            How many are pending, in flight, parked and dying, about.

        Raises:
            UnknownTopic: There is no such topic.
        """
        path = f"{path_of_group(group)}{path_of_topic(topic).removeprefix('/v1')}/counts"
        return answer_of(TopicCounts, self._call(self._consumer, "GET", path))

    def dead_letters(self, topic: str) -> list[DeadLetters]:
        """Count the dead letters of a topic that no redrive has sent back yet.

        It reads them all, a page at a time.

        Args:
            topic: A dead-letter topic.

        Returns:
            A line for each origin, group and reason, with when they died and what the last nack
            said; the largest number first. None if nothing has died yet.

        Raises:
            UnknownTopic: There is no such topic, and no topic has its dead letters there.
        """
        waiting = import_module("lakequeue.client.dead_summary").waiting_dead_letters
        found: list[DeadLetters] = waiting(self, topic)
        return found

    def redrive(
        self,
        topic: str,
        *,
        wanted: Wanted | None = None,
        to: str | None = None,
        rate: float | None = None,
        on_progress: Callable[[Redriven], None] | None = None,
    ) -> Redriven:
        """Send dead records back to the topics that they came from. Blocks until it is done.

        If it is called again after a failure, no record is sent twice.

        Args:
            topic: A dead-letter topic.
            wanted: Which records; all by default.
            to: Send them to this topic instead.
            rate: Limit of records per second.
            on_progress: Called with the counts so far.

        Returns:
            How many were sent back, were not wanted, and have no topic any more.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidRequest: The topic is no dead-letter topic.
        """
        redrive = import_module("lakequeue.client.redrive").redrive
        done: Redriven = redrive(
            topic,
            urls=self._ingest.urls,
            consumer_urls=self._consumer.urls,
            wanted=wanted,
            to=to,
            rate=rate,
            on_progress=on_progress,
            credentials=self._credentials,
        )
        return done
