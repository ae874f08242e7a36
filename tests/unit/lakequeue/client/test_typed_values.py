"""Values of the application's own types, and polls as tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pydantic import BaseModel, ConfigDict

from lakequeue import Consumer
from lakequeue.client.messages import Messages
from lakequeue.errors import InvalidRequest
from lakequeue.testing import MemoryQueue


class Line(BaseModel):
    """Part of an order."""

    article: str
    count: int


class Order(BaseModel):
    """What JSON cannot hold is text in it."""

    model_config = ConfigDict(strict=True)
    id: UUID
    total: Decimal
    at: datetime
    lines: tuple[Line, ...]
    note: str | None = None


@dataclass
class Reading:
    """A dataclass."""

    sensor: str
    value: float


ORDER = Order(
    id=UUID("12345678-1234-5678-1234-567812345678"),
    total=Decimal("12.50"),
    at=datetime(2026, 11, 29, 8, 0, 0, 123456, tzinfo=UTC),
    lines=(Line(article="pen", count=3),),
)


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    with MemoryQueue() as opened:
        opened.create_topic("orders", partitions=1)
        yield opened


def polled(queue: MemoryQueue, value_type: Any, *values: Any) -> Messages:
    """What a consumer with `value_type` gets of these records."""
    with queue.producer() as producer:
        for i, value in enumerate(values):
            producer.send("orders", value, key=f"k{i}", headers={"n": b"\xff"}, timestamp=ORDER.at)
    found = Messages()
    with queue.consumer("orders", group="g", value_type=value_type) as consumer:
        assert isinstance(consumer, Consumer)
        while len(found) < len(values):
            found += consumer.poll(10)
    return found


@pytest.mark.parametrize(
    ("value_type", "value"),
    [
        (Order, ORDER),
        (Reading, Reading("s1", 20.5)),
        (list[int], [1, 2**70]),
        (str, "12"),
        (str, '{"a": 1}'),
        (bytes, b"\x00\xff"),
        (Decimal, "0.1"),
        (Order, None),
    ],
)
def test_a_value_comes_back_as_its_type(queue: MemoryQueue, value_type: Any, value: Any) -> None:
    (message,) = polled(queue, value_type, value)
    expected = Decimal(value) if value_type is Decimal else value
    assert message.value == expected
    assert type(message.value) is type(expected)


def test_json_that_was_sent_as_text_is_read_too(queue: MemoryQueue) -> None:
    (message,) = polled(queue, Order, ORDER.model_dump_json())
    assert message.value == ORDER


def test_what_does_not_fit_is_an_error_that_names_the_field(queue: MemoryQueue) -> None:
    (message,) = polled(queue, Reading, {"sensor": "s1", "value": "warm"})
    with pytest.raises(InvalidRequest, match=r"(?s)orders/0@0 .*value"):
        _ = message.value
    assert message.json() == {"sensor": "s1", "value": "warm"}


def test_a_model_with_a_number_that_json_has_not_is_refused(queue: MemoryQueue) -> None:
    class Loose(BaseModel):
        value: float

    with queue.producer() as producer, pytest.raises(InvalidRequest, match="nan"):
        producer.send("orders", Loose(value=float("nan")))


def test_a_poll_is_an_arrow_table(queue: MemoryQueue) -> None:
    found = polled(queue, None, {"a": 1, "b": "x"}, {"a": 2, "b": None}, None)
    table = found.to_arrow()
    assert table.column_names == [
        *("topic", "partition", "offset", "key", "value", "headers", "timestamp"),
        *("message_id", "attempt"),
    ]
    assert table.column("value").to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}, None]
    assert table.column("offset").to_pylist() == [0, 1, 2]
    assert table.column("headers").to_pylist()[0] == [{"name": "n", "value": b"\xff"}]
    assert table.column("timestamp").to_pylist()[0] == ORDER.at
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_models_are_structs_of_an_arrow_table(queue: MemoryQueue) -> None:
    table = polled(queue, Order, ORDER, ORDER).to_arrow()
    fields = table.column("value").to_pylist()
    assert fields == [ORDER.model_dump(mode="json")] * 2


def test_dataclasses_are_structs_of_an_arrow_table(queue: MemoryQueue) -> None:
    reading = Reading("temp_1", 21.5)
    table = polled(queue, Reading, reading).to_arrow()
    assert [Reading(**fields) for fields in table.column("value").to_pylist()] == [reading]


def test_values_of_several_types_need_json(queue: MemoryQueue) -> None:
    found = polled(queue, None, "text", 5, {"a": 2**70}, b"\x00\xff", None)
    with pytest.raises(InvalidRequest, match="different types"):
        found.to_arrow()
    column = found.to_arrow(as_json=True).column("value")
    assert column.to_pylist() == ['"text"', "5", '{"a":1180591620717411303424}', '"AP8="', None]


def test_a_poll_is_a_data_frame(queue: MemoryQueue) -> None:
    frame = polled(queue, None, "text", {"a": 1}, b"\x00").to_pandas()
    assert frame["value"].tolist() == ["text", {"a": 1}, b"\x00"]
    assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"
    assert frame["timestamp"].iloc[0].to_pydatetime() == ORDER.at
    assert Messages().to_pandas().columns.tolist() == frame.columns.tolist()
    assert Messages().to_arrow().num_rows == 0
