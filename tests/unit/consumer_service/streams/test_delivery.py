"""What a poll takes from the cursors is given back when nobody gets it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.polls.served import take_back
from consumer_service.reading import encode
from consumer_service.reading.encode import COLUMNS
from consumer_service.reading.runs import runs_of
from consumer_service.reading.segments import Segments
from consumer_service.streams.delivery import Delivery
from consumer_service.streams.poll_result import StreamPollResult
from lakequeue.errors import StorageUnavailable, UndecodableRecord
from lakequeue.records import Partition, TopicId, TopicPartition
from queue_tables.schema.schemas import LOG
from serving.front.parking import BLOCKS, Wake, finish
from tests.unit.consumer_service.streams.parts_of_streams import log_rows, member, owned


def delivery(*partitions: OwnedPartition) -> Delivery:
    owned_partitions = OwnedPartitions()
    for one in partitions:
        owned_partitions.add(one)
    tailer = SimpleNamespace(known_end=lambda _: None, end=lambda _: 1)
    return Delivery(cast("Any", tailer), owned_partitions, 1 << 20, lambda _: None)


def test_an_error_in_one_partition_gives_back_what_others_gave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [owned(0), owned(1)]
    made = delivery(*parts)
    calls: list[OwnedPartition] = []

    def take(one: OwnedPartition, *_: object, **__: object) -> SimpleNamespace:
        calls.append(one)
        if len(calls) == 2:
            raise StorageUnavailable("away")
        one.cursor.deliver(0, 5)
        return SimpleNamespace(records=[{}] * 5, bytes=1, epoch=0, before=0)

    monkeypatch.setattr(made, "_take", take)
    one = member()
    with pytest.raises(StorageUnavailable):
        finish(made.steps(one, 100, 0, lambda: False, 0))
    assert len(calls) == 2
    assert [p.cursor.delivered for p in parts] == [0, 0]


def test_what_is_paused_while_other_partitions_are_looked_through_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [owned(0), owned(1)]
    made = delivery(*parts)
    calls: list[OwnedPartition] = []

    def take(one: OwnedPartition, *_: object, **__: object) -> SimpleNamespace:
        calls.append(one)
        one.cursor.deliver(0, 5)
        if len(calls) == 2:
            calls[0].paused = True
        record = {"topic": "orders", "partition": int(one.key.partition)}
        return SimpleNamespace(records=[record] * 5, bytes=1, epoch=0, before=0)

    monkeypatch.setattr(made, "_take", take)
    one = member()
    answer = finish(made.steps(one, 100, 0, lambda: False, 0))
    paused, other = calls
    assert [r["partition"] for r in answer.records] == [int(other.key.partition)] * 5
    assert (paused.cursor.delivered, other.cursor.delivered) == (0, 5)
    ((_, unconfirmed),) = one.polls.answered
    assert isinstance(unconfirmed, StreamPollResult)
    assert [place[0] for place in unconfirmed.before] == [other]


def test_a_client_that_hung_up_takes_nothing_back_behind_its_next_poll() -> None:
    part, one = owned(0, delivered=5), member()
    first = StreamPollResult(before=[(part, 0, 0)], number=one.polls.begin(0))
    one.polls.answered.append((first.number, first))
    one.polls.begin(0)
    assert part.cursor.delivered == 0
    part.cursor.deliver(0, 5)  # the second poll gets it
    take_back(one, first)
    assert part.cursor.delivered == 5


def test_a_client_that_hung_up_takes_back_though_its_polls_were_ended() -> None:
    part, one = owned(0, delivered=5), member()
    first = StreamPollResult(before=[(part, 0, 0)], number=one.polls.begin(0))
    one.polls.answered.append((first.number, first))
    one.polls.begun += 1  # as what comes back unopened does
    take_back(one, first)
    assert (part.cursor.delivered, one.polls.answered) == (0, [])


def test_records_of_an_epoch_that_the_answer_does_not_name_are_dropped() -> None:
    parts = [owned(0), owned(1)]
    delivered = StreamPollResult(
        [{"topic": "orders", "partition": p} for p in (0, 1)], [(p, 3, 0) for p in parts]
    )
    delivered.keep_only({("orders", 0): 3, ("orders", 1): 4})
    assert delivered.records == [{"topic": "orders", "partition": 0}]


class Stream:
    """A partition of six records of which the third and the fourth cannot be read."""

    def __init__(self, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.owned = owned(0)
        self.owned.options = json.dumps({"undecodable": policy}) if policy else ""
        self.told: list[int] = []
        read = encode._all_of

        def unforeseen(table: pa.Table) -> list[dict[str, Any]]:
            if {2, 3} & {*table["offset"].to_pylist()}:
                raise KeyError("nobody thought of it")
            return read(table)

        monkeypatch.setattr(encode, "_all_of", unforeseen)
        lease = SimpleNamespace(epoch=1, trusted=lambda: True)
        self.owned.lease = cast("Any", lease)
        tailer = SimpleNamespace(
            end=lambda _: 6,
            known_end=lambda _: 6,
            cut=lambda *_: None,
            read=lambda _where, at, _rows, _bytes: log_rows(at, 6),
        )
        owned_partitions = OwnedPartitions()
        owned_partitions.add(self.owned)
        self.delivery = Delivery(
            cast("Any", tailer), owned_partitions, 1 << 20, lambda _: None, self.undecodable
        )
        self.member = member()

    def undecodable(self, _group: str, records: Any) -> None:
        self.told += [r["offset"] for r in records if "undecodable" in r]

    def poll(self) -> list[tuple[int, bool]]:
        found = finish(self.delivery.steps(self.member, 100, 0, lambda: False))
        return [(r["offset"], r["value"] is not None) for r in found.records]


@pytest.mark.parametrize("policy", ["", "tombstone"])
def test_what_cannot_be_read_is_a_tombstone(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(policy, monkeypatch)
    assert stream.poll() == [(n, n not in {2, 3}) for n in range(6)]
    assert stream.told == [2, 3]


def test_a_stream_that_skips_passes_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream("skip", monkeypatch)
    assert stream.poll() == [(n, True) for n in (0, 1, 4, 5)]
    assert stream.told == [2, 3]
    cursor = stream.owned.cursor
    assert cursor.delivered == 6
    assert cursor.ack([0, 1, 4, 5], through=False) == 6


def test_a_stream_that_stops_says_where_and_goes_on_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Stream("stop", monkeypatch)
    assert stream.poll() == [(0, True), (1, True)]
    for _ in range(2):
        with pytest.raises(UndecodableRecord, match="orders/0: the record at offset 2") as stopped:
            stream.poll()
        assert (stopped.value.extra["offset"], stopped.value.http_status) == (2, 409)
    monkeypatch.undo()
    assert stream.poll() == [(n, True) for n in range(2, 6)]


def test_groups_share_the_records_of_memory_and_each_has_its_own_receipts() -> None:
    segments = Segments(1 << 20)
    where = TopicPartition(TopicId("t"), Partition(0))
    segments.append(log_rows(0, 4), runs_of(log_rows(0, 4)))
    tailer = SimpleNamespace(
        end=lambda _: 4, known_end=lambda _: 4, cut=segments.cut
    )  # it never reads for itself
    answers = []
    for epoch in (1, 2):
        one = owned(0)
        one.lease = cast("Any", SimpleNamespace(epoch=epoch, trusted=lambda: True))
        partitions = OwnedPartitions()
        partitions.add(one)
        made = Delivery(cast("Any", tailer), partitions, 1 << 20, lambda _: None)
        answers.append(finish(made.steps(member(), 3, 0, lambda: False)))
        assert one.cursor.delivered == 3
    receipts = [[record["receipt"] for record in answer.records] for answer in answers]
    assert receipts == [[f"t.0.{offset}.{epoch}.1" for offset in range(3)] for epoch in (1, 2)]
    alike = [[r | {"receipt": ""} for r in answer.records] for answer in answers]
    assert alike[0] == alike[1]
    assert "receipt" not in segments.cut(where, 0, 3, 1 << 20).records[0]  # type: ignore[union-attr]


class InMemory:
    """A partition of four records that memory holds, and one poll of it."""

    def __init__(self) -> None:
        self.segments = Segments(1 << 20)
        self.segments.append(log_rows(0, 4), runs_of(log_rows(0, 4)))
        self.owned = owned(0)
        self.owned.lease = cast("Any", SimpleNamespace(epoch=1, trusted=lambda: True))
        partitions = OwnedPartitions()
        partitions.add(self.owned)
        self.known = True
        self.tailer = SimpleNamespace(
            end=lambda _: 4,
            known_end=lambda _: 4 if self.known else None,
            cut=self.segments.cut,
            at_hand=self.segments.at_hand,
            read=lambda _where, at, _rows, _bytes: log_rows(at, 4),
        )
        self.member = member()
        self.delivery = Delivery(cast("Any", self.tailer), partitions, 1 << 20, lambda _: None)

    def poll(self, after: int | None = 0) -> tuple[int, list[int]]:
        """How often it says that it may block, and what it brings."""
        steps, blocked = self.delivery.steps(self.member, 10, 0, lambda: False, after), 0
        while True:
            try:
                assert next(steps) is BLOCKS
            except StopIteration as end:
                return blocked, [record["offset"] for record in end.value.records]
            blocked += 1
            if self.member.polls.lock.locked():
                self.member.polls.lock.release()


def test_what_memory_holds_is_for_the_event_loop() -> None:
    assert InMemory().poll() == (0, [0, 1, 2, 3])


@pytest.mark.parametrize("why", ["end", "files", "large", "ahead", "predicate", "busy", "number"])
def test_what_may_block_or_takes_long_is_for_a_thread(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, expected = InMemory(), [0, 1, 2, 3]
    match why:
        case "end":
            place.known = False
        case "files":
            place.segments.clear()
        case "large":
            monkeypatch.setattr("consumer_service.streams.readiness.AT_HAND_BYTES", 1)
        case "ahead":
            place.owned.rows = log_rows(0, 4)
        case "predicate":
            place.owned.options = json.dumps({"predicate": "offset = 9"})
            place.tailer.read_some = lambda *_: (None, 4)
            expected = []
        case "busy":
            place.member.polls.lock.acquire()
    blocked, found = place.poll(None if why == "number" else 0)
    assert blocked == 1
    assert found == expected


def test_a_record_that_is_over_is_not_shared() -> None:
    rows = log_rows(0, 3).set_column(
        COLUMNS.index("expires_at"),
        LOG.arrow.field("expires_at"),
        pa.array([None, 1, None], LOG.arrow.field("expires_at").type),
    )
    segments = Segments(1 << 20)
    segments.append(rows, runs_of(rows))
    one = owned(0)
    one.lease = cast("Any", SimpleNamespace(epoch=1, trusted=lambda: True))
    tailer = SimpleNamespace(
        end=lambda _: 3, known_end=lambda _: 3, cut=segments.cut, read=segments.read
    )
    partitions = OwnedPartitions()
    partitions.add(one)
    made = Delivery(cast("Any", tailer), partitions, 1 << 20, lambda _: None)
    answer = finish(made.steps(member(), 10, 0, lambda: False))
    assert [record["offset"] for record in answer.records] == [0, 2]


def test_what_was_read_ahead_does_not_leave_once_it_may_have_been_erased() -> None:
    one = owned(0)
    one.lease = cast("Any", SimpleNamespace(epoch=3, trusted=lambda: True))
    reads: list[int] = []

    def read(_where: object, offset: int, *_: int) -> pa.Table:
        reads.append(offset)
        return log_rows(offset, 6)

    partitions = OwnedPartitions()
    partitions.add(one)
    tailer = SimpleNamespace(end=lambda _: 6, known_end=lambda _: 6, cut=lambda *_: None, read=read)
    polls = Delivery(cast("Any", tailer), partitions, 1 << 20, lambda _: None)

    def poll() -> list[int]:
        return [r["offset"] for r in finish(polls.steps(member(), 2, 0, lambda: False)).records]

    assert poll() == [0, 1]
    assert poll() == [2, 3]
    assert reads == [0], "read ahead once"
    with one.fetching:
        partitions.read_anew()  # somebody is just at it
    assert poll() == [4, 5]
    assert reads == [0, 4]


def test_nothing_is_kept_of_what_was_read_ahead() -> None:
    """Of a partition that nobody polls neither."""
    one = owned(0)
    one.rows = log_rows(0, 6)
    partitions = OwnedPartitions()
    partitions.add(one)
    partitions.read_anew()
    assert one.rows is None


def test_a_poll_that_looks_again_takes_no_news_of_another_poll_of_its_member() -> None:
    place = InMemory()
    place.poll()
    first, second = (place.delivery.steps(place.member, 10, 60, lambda: False) for _ in range(2))
    next(until for until in first if until is not BLOCKS)
    waits = next(until for until in second if until is not BLOCKS)
    # The second has looked, and is not heard yet, when news come and the first looks again.
    place.member.wake.set()
    next(until for until in first if until is not BLOCKS)
    assert cast("Wake", waits.signal).is_set()
