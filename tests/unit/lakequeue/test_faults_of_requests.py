"""A request that is wrong in a million places takes no more than one that is wrong in one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from lakequeue import wire
from lakequeue.errors import InvalidRequest
from lakequeue.wire.parsing import valid
from lakequeue.wire.shapes import AS_JSON, RequestShape
from queue_rules.produce.json_body import envelope_of
from queue_tables.schema.topic_rules import checked_config


def _below(shape: type[RequestShape]) -> Iterator[type[RequestShape]]:
    for one in shape.__subclasses__():
        yield one
        yield from _below(one)


SHAPES = sorted(set(_below(RequestShape)), key=lambda shape: shape.__name__)
HOLDERS = [
    (shape, field.alias or name)
    for shape in SHAPES
    for name, field in shape.model_fields.items()
    if any(holder in str(field.annotation) for holder in ("list[", "dict["))
]


def faults_of(shape: type[RequestShape], given: dict[str, Any]) -> int:
    with pytest.raises(ValidationError) as refused:
        shape.model_validate(given, context=AS_JSON)
    return refused.value.error_count()


def test_there_are_lists_to_look_at() -> None:
    assert (wire.AckRequest, "nacks") in HOLDERS
    assert (wire.RedriveRequest, "headers") in HOLDERS
    assert len(HOLDERS) >= 10


@pytest.mark.parametrize(("shape", "name"), HOLDERS)
@pytest.mark.parametrize("wrong", [0.5, [], {}, {str(n): 0 for n in range(1_000)}])
def test_elements_that_are_wrong_are_one_fault(
    shape: type[RequestShape], name: str, wrong: Any
) -> None:
    most = 2 * len(shape.model_fields) + 2 * len(wire.CommitPosition.model_fields)
    assert faults_of(shape, {name: [wrong] * 1_000}) <= most
    assert faults_of(shape, {name: {str(n): wrong for n in range(1_000)}}) <= most


@pytest.mark.parametrize("shape", SHAPES)
def test_unknown_names_are_one_fault(shape: type[RequestShape]) -> None:
    unknown = {f"no such field {n}": n for n in range(1_000)}
    assert faults_of(shape, unknown) <= len(shape.model_fields) + 1


def test_the_first_unknown_name_is_told_beside_many() -> None:
    with pytest.raises(InvalidRequest, match="no such field 0") as refused:
        valid(wire.AckRequest, {"acks": []} | {f"no such field {n}": n for n in range(1_000)})
    assert refused.value.extra["field"] == "no such field 0"


MANY = 100_000
NAMES = {str(n): n for n in range(MANY)}
LONG = "x" * MANY


def of_acks(given: Any) -> None:
    valid(wire.AckRequest, given)


def of_an_envelope(given: Any) -> None:
    envelope_of(given, strict=True)


def of_a_topic(given: Any) -> None:
    checked_config("t", given)


@pytest.mark.parametrize(
    ("read", "given"),
    [
        pytest.param(of_acks, {"acks": [0] * MANY}, id="acks"),
        pytest.param(of_acks, {"nacks": [{}] * MANY}, id="nacks"),
        pytest.param(of_acks, NAMES, id="names"),
        pytest.param(of_acks, {LONG: 1}, id="a long name"),
        pytest.param(of_an_envelope, NAMES, id="names of an envelope"),
        pytest.param(of_an_envelope, {"consumed": NAMES}, id="names of what was consumed"),
        pytest.param(of_an_envelope, {LONG: 1}, id="a long name of an envelope"),
        pytest.param(of_a_topic, NAMES, id="names of a topic"),
        pytest.param(of_a_topic, {LONG: 1}, id="a long name of a topic"),
        pytest.param(of_a_topic, {"partitions": LONG}, id="a long text of a topic"),
    ],
)
def test_a_refusal_takes_no_memory_and_is_short(read: Callable[[Any], None], given: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest) as refused:
            read(given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(str(refused.value)) < 2_000
    assert peak < 10 * MANY
