"""Dead letters: what has no attempt left goes to another topic, exactly once, and is settled here.

Three steps, each of which may be repeated: the fact *dying*; the record, sent to the dead-letter
topic under an id that is made of group, topic, partition and offset, and waited for until it is
ordered; the fact *dead*. A record that was dying for longer than the ids are remembered is looked
for in the topic first. See `docs/protocols/queue-groups.md`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import httpx2
import orjson
import structlog

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from consumer_service.reading.encode import kept_record
from consumer_service.reading.tailer import Tailer
from lakequeue import metrics
from lakequeue.calling.credentials import Bearer, credentials_of
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    NotReady,
    OffsetOutOfRange,
    Rejected,
    UnknownTopic,
    Unreachable,
)
from lakequeue.metrics.declaring import Sample
from lakequeue.records import Offset, Partition, TopicPartition
from lakequeue.steps import Step, reach
from lakequeue.wire import (
    dead_letter_id,
    from_problem,
    place_of,
)
from queue_rules.queues.attempts import Attempt, Move, move_of
from queue_rules.queues.dead_records import as_bytes, dead_letter_of, new_dead_letters
from queue_tables.groups.facts import Kind
from queue_tables.schema.odd_bytes import texts_of
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore

log = structlog.get_logger()

BATCH = 100
_LEAST_PAUSE_S = 0.02
SLOW_LOOK_S = 5.0
ORDER_TIMEOUT_MS = 30_000
SEND_BYTES = 4 << 20
"""Of one request: ingest nodes take 16 MiB as they come, and a record may have 1 MiB."""
WINDOW_MARGIN_MS = 60_000
"""A record that is dying for nearly as long as ids are remembered is looked for, to be safe."""


def requests_of(records: Iterable[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """Records for one request each: at most `most` bytes of JSON, but one record at least. Pure."""
    part: list[dict[str, Any]] = []
    size = 0
    for record in records:
        own = len(orjson.dumps(record)) + 1
        if part and size + own > most:
            yield part
            part, size = [], 0
        part.append(record)
        size += own
    if part:
        yield part


def _id_of(owned: OwnedPartition, one: Attempt) -> str:
    return dead_letter_id(owned.key.group, *owned.key[1:], one.offset, owned.generation)


class NoTarget(Exception):
    """The dead-letter topic is not there and cannot be made."""


class DeadLetters:
    """One thread of a node. `look` wakes it."""

    def __init__(
        self,
        tailer: Tailer,
        journal: Journal,
        topics: TopicStore,
        owned: Callable[[], Iterable[OwnedPartition]],
        target_of: Callable[[OwnedPartition], str],
        ingest_urls: Callable[[], list[str]],
        on_freed: Callable[[str], object],
    ) -> None:
        self._tailer = tailer
        self._journal = journal
        self._topics = topics
        self._held = owned
        self._target_of = target_of
        self._ingest_urls = ingest_urls
        self._on_freed = on_freed
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._slow: weakref.WeakSet[OwnedPartition] = weakref.WeakSet()
        """Where something is refused for good: one record at a time."""
        self._sent: dict[str, int] = {}
        """Dead records of a group that this node has sent. Only its thread writes it."""
        self._http = httpx2.Client(
            timeout=ORDER_TIMEOUT_MS / 1_000 + 10,
            trust_env=False,
            auth=Bearer(credentials_of()),
            verify=credentials_of().trust(),
        )
        self._thread = threading.Thread(target=self._run, name="dead-letters", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. What is dying goes on at the next owner."""
        self._stopping.set()
        self._wake.set()
        # A request that waits for its record to be ordered is not waited for.
        self._http.close()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def wake(self) -> None:
        """Something is dying."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._pause_s())
            self._wake.clear()
            for owned in self._held():
                try:
                    while not self._stopping.is_set() and self.step(owned):
                        pass
                except Exception as error:
                    # Whatever it is: a thread that ends would strand every dead letter of the node.
                    if self._stopping.is_set():
                        return
                    foreseen = isinstance(error, LakequeueError | httpx2.HTTPError | NoTarget)
                    log.warning(
                        "dead_letters.failed",
                        group=owned.key.group,
                        topic=owned.topic,
                        error=str(error) or repr(error),
                        exc_info=not foreseen,
                    )

    def _pause_s(self) -> float:
        """Until something that was refused may be tried again."""
        times = [at for owned in self._held() if (at := owned.refused_letters.next_s) is not None]
        if not times:
            return SLOW_LOOK_S
        return min(SLOW_LOOK_S, max(_LEAST_PAUSE_S, min(times) - boot_seconds()))

    def samples(self) -> Iterator[Sample]:
        """How many were sent, and for how long others have been refused, by group."""
        for group, count in list(self._sent.items()):
            yield Sample(metrics.consumer.DEAD_LETTERS, count, (group,))
        since: dict[str, int] = {}
        for owned in self._held():
            with owned.lock:
                oldest = owned.refused_letters.oldest
            if oldest is not None:
                known = since.get(owned.key.group, oldest.since)
                since[owned.key.group] = min(known, oldest.since)
        now = wall_micros()
        for group, at in since.items():
            yield Sample(
                metrics.consumer.DEAD_LETTERS_REFUSED, max(0.0, (now - at) / 1e6), (group,)
            )

    def step(self, owned: OwnedPartition) -> bool:
        """Send the first of what is dying and due; False if there is nothing, or it failed.

        What fails is tried again later, each record by itself. Raises why.
        """
        with owned.lock:
            if owned.queue is None or not owned.delivers:
                return False
            dying = owned.queue.dying
            owned.refused_letters.keep_only(dying)
            due = owned.refused_letters.due(dying, boot_seconds())
            some = [dying[at] for at in due[: BATCH if owned not in self._slow else 1]]
        if not some:
            self._slow.discard(owned)
            return False
        try:
            self._settle_dead(owned, some)
        except Exception as error:
            # One of several is refused for good: they go one by one, and it by itself.
            if isinstance(error, Rejected) and len(some) > 1:
                self._slow.add(owned)
                return True
            with owned.lock:
                why = str(error) or repr(error)
                offsets = [one.offset for one in some]
                owned.refused_letters.refused(offsets, why, wall_micros(), boot_seconds())
            raise
        return True

    def _settle_dead(self, owned: OwnedPartition, some: list[Attempt]) -> None:
        self._write(owned, Kind.DYING, [one for one in some if not one.written])
        for one in some:
            one.written = True
        reach(Step.DEAD_DYING)
        target = self._target_of(owned)
        places = self._send(target, owned, some)
        reach(Step.DEAD_SENT)
        self._write(owned, Kind.DEAD, some, places)
        with owned.lock:
            if owned.queue is not None:
                for one in some:
                    owned.queue.finish_dead(one, places.get(_id_of(owned, one), ""))
        reach(Step.DEAD_SETTLED)
        self._on_freed(owned.key.group)
        self._sent[owned.key.group] = self._sent.get(owned.key.group, 0) + len(some)
        log.info("dead_letters.sent", group=owned.key.group, topic=target, records=len(some))

    def _write(
        self,
        owned: OwnedPartition,
        kind: Kind,
        some: list[Attempt],
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Make the facts durable. Raises `NotReady` when the partition is not ours any more."""
        if not some:
            return
        moves = [
            Move(
                kind,
                one.offset,
                one.attempt,
                reason=one.reason,
                dead_letter=places.get(_id_of(owned, one), ""),
            )
            if kind is Kind.DEAD
            else move_of(kind, one)
            for one in some
        ]
        with Settlement(self._journal, [owned]) as settlement:
            if not owned.delivers or not owned.trusted():
                raise NotReady(f"partition {owned.key.partition} of {owned.topic} goes away")
            settlement.submit_moves(owned, moves)
        settlement.wait("is the storage slow or away? it is tried again")
        if settlement.newer_epoch(owned) is not None:
            raise NotReady(f"partition {owned.key.partition} of {owned.topic} was taken over")

    # -- the dead-letter topic --------------------------------------------------------------------

    def _send(self, target: str, owned: OwnedPartition, some: list[Attempt]) -> dict[str, str]:
        """See to it that the dead letters stand in `target`; where, by their ids."""
        source = self._topics.by_id(owned.key.topic_id)
        try:
            topic = self._ensure_topic(target, source)
        except Rejected as error:
            raise NoTarget(
                f"dead-letter topic {target} cannot be made: {error.detail}; name another one as "
                f"dead_letter_topic of {owned.topic}"
            ) from error
        known = self._already_there(topic, owned, some)
        records = [
            dead_letter_of(record, owned.key.topic_id, owned.key.group, one, owned.generation)
            for one in some
            if _id_of(owned, one) not in known and (record := self._record(owned, one)) is not None
        ]
        path = f"/v1/topics/{target}/records?wait=ordered&timeout_ms={ORDER_TIMEOUT_MS}"
        for part in requests_of(records, SEND_BYTES):
            answer = self._post(path, part)
            lost = [r.get("reason") for r in answer["records"] if r.get("offset") is None]
            if lost:
                raise NotReady(f"{len(lost)} dead letters were not ordered: {lost[0]}")
            # Of one that was there already the place is that of the original.
            known |= {
                sent["message_id"]: place_of(target, record["partition"], record["offset"])
                for sent, record in zip(part, answer["records"], strict=True)
            }
        return known

    def _post(self, path: str, part: list[dict[str, Any]]) -> dict[str, Any]:
        try:
            return self._call("POST", path, {"records": part})
        except InvalidRequest:
            if len(part) > 1:
                raise
            # What stands in the log was taken once; by newer rules its JSON may not pass.
            return self._call("POST", path, {"records": [as_bytes(part[0])]})

    def _ensure_topic(self, name: str, source: Topic | None) -> Topic:
        try:
            # It may have been deleted, or altered to take what it has refused.
            self._topics.refresh()
            return self._topics.get(name)
        except UnknownTopic:
            self._call("PUT", f"/v1/topics/{name}", new_dead_letters(source))
            return self._topics.get(name)

    def _record(self, owned: OwnedPartition, one: Attempt) -> dict[str, Any] | None:
        try:
            rows = self._tailer.read_one(owned.where, one.offset)
        except OffsetOutOfRange:
            rows = None
        if rows is None:
            log.warning("dead_letter.lost", topic=owned.topic, offset=one.offset)
            return None
        return kept_record(rows)

    def _already_there(
        self, topic: Topic, owned: OwnedPartition, some: list[Attempt]
    ) -> dict[str, str]:
        """What stands in the topic, of those that are dying for as long as ids are kept."""
        old = wall_micros() - (topic.dedup_window_ms - WINDOW_MARGIN_MS) * 1_000
        ids = {_id_of(owned, one) for one in some if one.deadline < old}
        return {known: place for known, place in self._ids_in(topic) if known in ids} if ids else {}

    def _ids_in(self, topic: Topic) -> Iterator[tuple[str, str]]:
        """(message id, place) of everything in the topic."""
        for number in range(topic.partitions):
            where = TopicPartition(topic.topic_id, Partition(number))
            at, end = self._tailer.first(where), self._tailer.end(where)
            while at < end:
                rows = self._tailer.read(where, at, 20_000, 32 << 20)
                if rows.num_rows == 0:
                    break
                ids, offsets = texts_of(rows["message_id"]), rows["offset"].to_pylist()
                for known, offset in zip(ids, offsets, strict=True):
                    yield known or "", place_of(topic.topic, number, offset)
                at = Offset(offsets[-1] + 1)

    def _call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        urls = self._ingest_urls()
        if not urls:
            raise Unreachable("no ingest node is registered", hint="start one")
        answer = self._http.request(
            method,
            urls[0] + path,
            content=orjson.dumps(body),
            headers={"Content-Type": "application/json"},
        )
        if answer.status_code >= 300:
            problem = orjson.loads(answer.content)
            raise from_problem(problem, answer.status_code)
        parsed: dict[str, Any] = orjson.loads(answer.content)
        return parsed
