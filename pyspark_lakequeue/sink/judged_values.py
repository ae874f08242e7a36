"""Values of rows, judged by the schemas of their topics. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.clock import Micros
from lakequeue.errors import InvalidRequest
from lakequeue.partitioner import partition_of
from lakequeue.wire.calls.topics import VALUE_FAULT_HEADER
from pyspark_lakequeue.sink.targets import Target
from queue_rules.produce.dead_values import letter_headers, letter_id
from queue_tables.delta.columns import HEADERS


def judge(
    given: Mapping[str, pa.Array],
    value: pa.Array,
    value_format: int,
    target_of: Callable[[str], Target],
    now: Micros,
) -> dict[str, pa.Array]:
    """The columns, with other topics, ids and headers where values are not of their schema.

    `given` has `topic`, `headers` and `message_id`. Raises `InvalidRequest` where a topic refuses.
    """
    faults: dict[int, str] = {}
    for name in pc.unique(given["topic"]).to_pylist():
        target = target_of(name)
        schema = target.values
        if schema is None:
            continue
        for at in pc.indices_nonzero(pc.equal(given["topic"], name)).to_pylist():
            fault = schema.fault(value[at].as_py(), value_format)
            if fault is not None and target.policy == "reject":
                raise InvalidRequest(
                    f"a value for topic {name!r} does not satisfy its schema: {fault}",
                    hint="filter such rows out before the write",
                    field="value",
                )
            if fault is not None:
                faults[at] = fault
    return dict(given) if not faults else _changed(given, value, faults, target_of, now)


def _changed(
    given: Mapping[str, pa.Array],
    value: pa.Array,
    faults: Mapping[int, str],
    target_of: Callable[[str], Target],
    now: Micros,
) -> dict[str, pa.Array]:
    count = len(value)
    names = ["topic", "headers", "message_id"]
    columns: dict[str, list[Any]] = {name: given[name].to_pylist() for name in names}
    chosen = given["partition"] if "partition" in given else pa.nulls(count, pa.int32())
    partitions: list[int | None] = chosen.to_pylist()
    for at, fault in faults.items():
        target = target_of(columns["topic"][at])
        own = [(header["key"], header["value"]) for header in columns["headers"][at]]
        if target.policy == "warn":
            own.append((VALUE_FAULT_HEADER, fault.encode(errors="replace")))
        else:
            key = given["key"][at].as_py() if "key" in given else None
            partition = partitions[at]
            if partition is None and key is not None:
                data = key.encode() if isinstance(key, str) else key
                partition = partition_of(data, target.partitions, target.partitioner)
            own = letter_headers(own, columns["topic"][at], partition, fault, now)
            columns["message_id"][at] = letter_id(
                target.topic_id, columns["message_id"][at], value[at].as_py()
            )
            columns["topic"][at] = target.dead_letters
            partitions[at] = None
        columns["headers"][at] = [{"key": name, "value": said} for name, said in own]
    return {
        **given,
        "topic": pa.array(columns["topic"], pa.string()),
        "headers": pa.array(columns["headers"], HEADERS),
        "message_id": pa.array(columns["message_id"], pa.string()),
        "partition": pa.array(partitions, pa.int32()),
    }
