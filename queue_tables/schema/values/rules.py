"""What a topic says of the values of its new records: schema, kind of schema, policy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import orjson

from lakequeue.errors import InvalidRequest, TooLarge
from lakequeue.records import Format
from queue_tables.schema.values import avro_compatibility, protobuf_compatibility
from queue_tables.schema.values.avro_schema import AvroSchema, AvroValues
from queue_tables.schema.values.json_cost import MOST_OF_RECORD, check_cost
from queue_tables.schema.values.json_schema import ValueSchema
from queue_tables.schema.values.protobuf_schema import schema_of
from queue_tables.schema.values.protobuf_values import ProtobufValues

OF_VALUES: Final = ("value_schema_type", "value_policy", "value_compatibility")
"""Settings that go with `value_schema`, and that came later than it."""
WITH_VERSIONS: Final = frozenset({"avro", "protobuf"})
"""Kinds of schemas of which all are remembered that a topic has had."""
MOST_VERSIONS: Final = 100
"""Schemas that a topic has had, and that records may be of."""
_HINT = "`lakequeue topic describe` shows the schema"


class EarlierSchema(NamedTuple):
    """One that a topic has had."""

    kind: str
    text: str


def texts_of(kind: str, schemas: Iterable[EarlierSchema]) -> tuple[str, ...]:
    """Those of a kind, in their order."""
    return tuple(one.text for one in schemas if one.kind == kind)


class Values(Protocol):
    """The values that a topic takes."""

    def evaluations(self, value: bytes | None) -> int:
        """How much it is to judge a value, at most. Raises `TooLarge` if it is too much."""

    def fault(self, value: bytes | None, fmt: int) -> str | None:
        """What is wrong with a value in its stored form; None: nothing."""


class _Binary:
    """Values are bytes, always. A record without a value is a tombstone, and is not judged."""

    def __init__(self, kind: str, values: AvroValues | ProtobufValues) -> None:
        self._kind = kind
        self._values = values

    def evaluations(self, value: bytes | None) -> int:
        found = 0 if value is None else self._values.evaluations(value)
        if found > MOST_OF_RECORD:
            raise TooLarge(
                f"the value may take {found} steps in the topic's schema, at most {MOST_OF_RECORD}",
                hint="send it as several records",
                field="value",
            )
        return found

    def fault(self, value: bytes | None, fmt: int) -> str | None:
        if value is None:
            return None
        if fmt != Format.BYTES:
            kind = "JSON" if fmt == Format.JSON else "text"
            return f"it is {kind}, and the schema is of {self._kind}: send bytes"
        return self._values.fault(value)


@lru_cache(256)
def values_of(
    text: str | None, kind: str | None = None, earlier: tuple[EarlierSchema, ...] = ()
) -> Values | None:
    """The rule of a topic, compiled once; None if any value is taken. Raises `InvalidRequest`."""
    if text is None:
        return None
    if kind == "protobuf":
        return _Binary("Protobuf", ProtobufValues(text))
    if kind == "avro":
        return _Binary("Avro", AvroValues(text, texts_of(kind, earlier)))
    return ValueSchema(text)


def check_value(values: Values, value: bytes | None, fmt: int) -> None:
    """Raise `InvalidRequest` with what is wrong, and where."""
    fault = values.fault(value, fmt)
    if fault is not None:
        raise InvalidRequest(
            f"the value does not satisfy the topic's schema: {fault}", hint=_HINT, field="value"
        )


# -- settings -----------------------------------------------------------------------------------


def check_settings(full: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` unless what is said of values goes together."""
    text, kind = full["value_schema"], full["value_schema_type"]
    for name in OF_VALUES:
        if text is None and full[name] is not None:
            raise InvalidRequest(
                f"{name} = {full[name]!r} is given, and there is no value_schema",
                hint="give value_schema as well",
                field=name,
            )
    if full["value_compatibility"] not in {None, "none"} and kind not in WITH_VERSIONS:
        raise InvalidRequest(
            f"value_compatibility = {full['value_compatibility']!r} is for schemas of Avro and"
            " Protobuf",
            hint="give value_schema_type = 'avro' or 'protobuf', or no value_compatibility",
            field="value_compatibility",
        )
    if values_of(text, kind) is not None and kind not in WITH_VERSIONS:
        check_cost(orjson.loads(text))


def check_next(rule: str | None, kind: str, text: str, earlier: Sequence[str]) -> None:
    """Raise `InvalidRequest` if a schema may not follow the `earlier` ones, the oldest first."""
    if len(earlier) >= MOST_VERSIONS:
        raise InvalidRequest(
            f"the topic has had {len(earlier)} schemas, at most {MOST_VERSIONS}",
            hint="create another topic, and copy the records",
            field="value_schema",
        )
    plain = (rule or "none").removesuffix("_transitive")
    compared = earlier if plain != rule else earlier[-1:]
    for number, old_text in reversed(list(enumerate(earlier, 1))):
        if old_text not in compared:
            continue
        for word, fault in _faults(plain, kind, text, old_text):
            if fault is not None:
                raise InvalidRequest(
                    f"value_schema is not {word} compatible with version {number}: {fault}",
                    hint=_NEXT_HINTS[kind],
                    field="value_schema",
                )


_NEXT_HINTS: Final = {
    "avro": "give new fields a default, and keep the types of the others; or set "
    "value_compatibility to none",
    "protobuf": "keep the numbers and types of fields, and give new ones new numbers; or set "
    "value_compatibility to none",
}


def _faults(rule: str, kind: str, text: str, old_text: str) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    if rule in {"backward", "full"}:
        found.append(("backward", _unreadable(kind, text, old_text)))
    if rule in {"forward", "full"}:
        found.append(("forward", _unreadable(kind, old_text, text)))
    return found


def _unreadable(kind: str, reader: str, writer: str) -> str | None:
    if kind == "protobuf":
        return protobuf_compatibility.unreadable(schema_of(reader), schema_of(writer))
    return avro_compatibility.unreadable(AvroSchema(reader), AvroSchema(writer))
