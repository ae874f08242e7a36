"""Many records leave in columns, if the client of the poll takes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import orjson
import pyarrow as pa
import pytest

from consumer_service.ownership.owned_partition import OwnedPartitions
from consumer_service.reading import encode
from consumer_service.reading.columns import Form, InColumns
from consumer_service.streams.delivery import Delivery
from consumer_service.streams.poll_result import StreamPollResult
from consumer_service.streams.shares import COLUMNS_FROM, TEXT_FROM
from lakequeue.wire import UNDECODABLE
from serving.front.parking import finish
from tests.support.data.rows import raw_headers
from tests.unit.consumer_service.streams.parts_of_streams import log_rows, member, owned


class Many:
    """Two partitions with so many records that columns pay."""

    def __init__(self, count: int = COLUMNS_FROM // 2, odd: int | None = None) -> None:
        """Headers of partition `odd` have no names."""
        self.parts = [owned(0), owned(1)]
        self.unreadable: list[Any] = []
        owned_partitions = OwnedPartitions()
        for part in self.parts:
            part.lease = cast("Any", SimpleNamespace(epoch=1, trusted=lambda: True))
            owned_partitions.add(part)
        tailer = SimpleNamespace(
            end=lambda _: count,
            known_end=lambda _: count,
            cut=lambda *_: None,
            read=lambda where, at, _rows, _bytes: rows_in(
                int(where.partition), at, count, odd=odd == where.partition
            ),
        )
        self.delivery = Delivery(
            cast("Any", tailer),
            owned_partitions,
            1 << 20,
            lambda _: None,
            lambda _group, records: self.unreadable.extend(
                record for record in records if UNDECODABLE in record
            ),
        )
        self.member = member()

    def poll(self, most: int = 10_000, form: Form | None = "arrow") -> StreamPollResult:
        steps = self.delivery.steps(self.member, most, 0, lambda: False, None, form=form)
        return finish(steps)


def rows_in(partition: int, first: int, last: int, *, odd: bool = False) -> pa.Table:
    rows = log_rows(first, last)
    if odd:
        at = rows.schema.get_field_index("headers")
        nameless = raw_headers([[(cast("bytes", None), b"v")]] * len(rows))
        rows = rows.set_column(at, "headers", nameless)
    at = rows.schema.get_field_index("partition")
    return rows.set_column(at, "partition", pa.array([partition] * len(rows), pa.int32()))


def test_a_client_that_takes_columns_gets_many_records_in_columns() -> None:
    many = Many()
    found = many.poll()
    assert isinstance(found.records, InColumns)
    assert len(found.records) == COLUMNS_FROM
    places = [(r["partition"], r["offset"]) for r in found.records]
    assert sorted(places) == [(p, n) for p in (0, 1) for n in range(COLUMNS_FROM // 2)]
    assert not many.poll().records
    found.take_back()
    again = many.poll(100)
    assert isinstance(again.records, list), "it does not want many"
    assert len(again.records) == 100


def test_each_partition_gives_its_share() -> None:
    many = Many(2_000)
    found = many.poll(2_000)
    assert isinstance(found.records, InColumns)
    counts = {part.place: part.rows.num_rows for part in found.records.parts}
    assert counts == {("orders", 0): 1_000, ("orders", 1): 1_000}


def test_what_a_partition_has_not_the_next_one_gives() -> None:
    many = Many(2_000)
    for part in many.parts:
        part.cursor.delivered = 1_990
        assert len(many.poll(1_200).records) == 1_200
        many.parts[0].cursor.delivered = many.parts[1].cursor.delivered = 0


def test_few_records_leave_as_json_and_those_without_columns_too() -> None:
    assert isinstance(Many(10).poll().records, list)
    assert isinstance(Many().poll(form=None).records, list)
    many = Many(COLUMNS_FROM, odd=1)
    found = many.poll()
    assert isinstance(found.records, list)
    assert len(found.records) == 2 * COLUMNS_FROM
    assert many.unreadable == []


def test_of_what_leaves_as_json_in_their_place_the_unreadable_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("nobody thought of it")

    monkeypatch.setattr(encode, "put_key_value", fails)
    many = Many(odd=1)
    found = many.poll()
    assert len(found.records) == len(many.unreadable) == COLUMNS_FROM
    assert isinstance(Many().poll().records, InColumns)


def test_json_is_made_of_columns_if_many_wait_in_each_partition() -> None:
    found = Many().poll(form="json").records
    assert isinstance(found, InColumns)
    said = orjson.loads(found.body({}))
    assert said == {"records": orjson.loads(orjson.dumps(list(found)))}
    assert len(said["records"]) == COLUMNS_FROM
    few = Many(TEXT_FROM - 1)
    assert isinstance(few.poll(form="json").records, list)
    assert isinstance(Many().poll(100, form="json").records, list), "it does not want many"


def test_of_columns_too_what_must_not_leave_is_dropped() -> None:
    many = Many()
    found = many.poll()
    found.keep_only({("orders", 0): 1, ("orders", 1): 2})
    assert isinstance(found.records, InColumns)
    assert {part.place for part in found.records.parts} == {("orders", 0)}


def test_each_of_two_polls_of_a_member_gets_what_its_client_takes() -> None:
    many = Many()
    first = many.delivery.steps(many.member, 10_000, 0, lambda: False, None)
    next(first)
    second = many.poll()
    assert isinstance(second.records, InColumns)
    second.take_back()
    found = finish(first)
    assert isinstance(found.records, list)
    assert len(found.records) == COLUMNS_FROM
