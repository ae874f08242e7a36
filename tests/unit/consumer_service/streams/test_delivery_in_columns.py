"""Many records leave in columns, if the client of the poll takes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import orjson
import pyarrow as pa
import pytest

from consumer_service.ownership.owned_partition import OwnedPartitions
from consumer_service.reading.columns import Form, InColumns, Part, part_of
from consumer_service.streams import delivery as stream_delivery
from consumer_service.streams.delivery import COLUMNS_FROM, TEXT_FROM, Delivery
from consumer_service.streams.poll_result import StreamPollResult
from serving.front.parking import finish
from tests.unit.consumer_service.streams.parts_of_streams import log_rows, member, owned


class Many:
    """Two partitions with so many records that columns pay."""

    def __init__(self, count: int = COLUMNS_FROM // 2) -> None:
        self.parts = [owned(0), owned(1)]
        owned_partitions = OwnedPartitions()
        for part in self.parts:
            part.lease = cast("Any", SimpleNamespace(epoch=1, trusted=lambda: True))
            owned_partitions.add(part)
        tailer = SimpleNamespace(
            end=lambda _: count,
            cut=lambda *_: None,
            read=lambda where, at, _rows, _bytes: rows_in(int(where.partition), at, count),
        )
        self.delivery = Delivery(
            cast("Any", tailer), owned_partitions, 1 << 20, lambda _: None, lambda *_: None
        )
        self.member = member()

    def poll(self, most: int = 10_000, form: Form | None = "arrow") -> StreamPollResult:
        steps = self.delivery.steps(self.member, most, 0, lambda: False, None, form=form)
        return finish(steps)


def rows_in(partition: int, first: int, last: int) -> pa.Table:
    rows = log_rows(first, last)
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


def test_few_records_leave_as_json_and_those_without_columns_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(Many(10).poll().records, list)
    assert isinstance(Many().poll(form=None).records, list)
    odd: list[tuple[str, int]] = []

    def first_alone(place: tuple[str, int], epoch: int, rows: pa.Table) -> Part | None:
        odd.append(place)
        return part_of(place, epoch, rows) if len(odd) == 1 else None

    monkeypatch.setattr(stream_delivery, "part_of", first_alone)
    found = Many().poll()
    assert isinstance(found.records, list)
    assert len(found.records) == COLUMNS_FROM
    assert len(odd) == 2


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
