"""What the SDK's producer sends, as a node reads it: columns and JSON say the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.http.bodies import media_type, request_of
from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.client.producing.producer_batch import COLUMNS_FROM, ProducerBatch
from lakequeue.client.producing.record_accumulator import Limits as BatchLimits
from lakequeue.client.producing.record_accumulator import RecordAccumulator
from lakequeue.errors import InvalidRequest, TooLarge
from queue_rules.produce.rows import Request
from queue_rules.produce.validation import Limits

LIMITS = Limits(partitions=8, partitioner="crc32", max_record_bytes=100, max_records=10_000)
VALUES = st.sampled_from([st.binary(max_size=20), st.text(max_size=20)])
KEYS = st.sampled_from([st.none(), st.binary(max_size=5), st.text(max_size=5)])


def parsed(batch: ProducerBatch, *, columns: bool) -> Request:
    body = batch.body("p", 5, columns=columns)
    kind = media_type(body.content_type)
    assert (kind == "arrow") == columns
    query = {name: str(value) for name, value in body.params.items()}
    return request_of(body.data, kind, query, "t", LIMITS)


def batch_of(records: list[Outgoing], run: str | None = None) -> ProducerBatch:
    box = RecordAccumulator("t", "p", BatchLimits(), 3, run)
    for record in records:
        box.add(record, 0.0)
    return box.take()


@given(st.data())
def test_columns_say_what_json_says(data: st.DataObject) -> None:
    value, key = data.draw(VALUES), data.draw(KEYS)
    placed = data.draw(st.sampled_from([st.none(), st.integers(0, 7)]))
    records = [Outgoing("t", data.draw(value), data.draw(key), data.draw(placed)) for _ in range(5)]
    records += [Outgoing("t", *_of(records[n % 5])) for n in range(COLUMNS_FROM)]
    batch = batch_of(records, data.draw(st.sampled_from([None, "run"])))
    if data.draw(st.booleans()):
        batch = batch.part([batch.records[0], *batch.records[2:]])
    assert parsed(batch, columns=True) == parsed(batch, columns=False)


def _of(record: Outgoing) -> tuple[Any, Any, int | None]:
    return record.value, record.key, record.partition


@pytest.mark.parametrize(
    ("value", "partition", "error"),
    [(b"v", 8, InvalidRequest), (b"v" * 101, 3, TooLarge)],
    ids=["partition", "size"],
)
def test_a_record_at_fault_is_named_by_its_place(
    value: bytes, partition: int, error: type[InvalidRequest]
) -> None:
    records = [Outgoing("t", b"v", None, 3) for _ in range(COLUMNS_FROM)]
    records[20] = Outgoing("t", value, None, partition)
    for columns in (True, False):
        with pytest.raises(error) as refused:
            parsed(batch_of(records), columns=columns)
        assert refused.value.extra["record"] == 20
