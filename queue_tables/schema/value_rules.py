"""What a topic says of the values of its new records: schema, kind of schema, policy. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

import orjson

from lakequeue.errors import InvalidRequest, TooLarge
from lakequeue.records import Format
from queue_tables.schema.avro_compatibility import unreadable
from queue_tables.schema.avro_schema import AvroSchema, AvroValues
from queue_tables.schema.schema_cost import MOST_OF_RECORD, check_cost
from queue_tables.schema.value_schema import ValueSchema

OF_VALUES: Final = ("value_schema_type", "value_policy", "value_compatibility")
"""Settings that go with `value_schema`, and that came later than it."""
MOST_VERSIONS: Final = 100
"""Schemas that a topic has had, and that records may be of."""
_HINT = "`lakequeue topic describe` shows the schema"


class Values(Protocol):
    """The values that a topic takes."""

    def evaluations(self, value: bytes | None) -> int:
        """How much it is to judge a value, at most. Raises `TooLarge` if it is too much."""

    def fault(self, value: bytes | None, fmt: int) -> str | None:
        """What is wrong with a value in its stored form; None: nothing."""


class _Avro:
    """Values in Avro: bytes, always. A record without a value is a tombstone, and is not judged."""

    def __init__(self, text: str, earlier: tuple[str, ...]) -> None:
        self._values = AvroValues(text, earlier)

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
            return f"it is {kind}, and the schema is of Avro: send bytes"
        return self._values.fault(value)


@lru_cache(256)
def values_of(
    text: str | None, kind: str | None = None, earlier: tuple[str, ...] = ()
) -> Values | None:
    """The rule of a topic, compiled once; None if any value is taken. Raises `InvalidRequest`."""
    if text is None:
        return None
    return _Avro(text, earlier) if kind == "avro" else ValueSchema(text)


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
    if full["value_compatibility"] not in {None, "none"} and kind != "avro":
        raise InvalidRequest(
            f"value_compatibility = {full['value_compatibility']!r} is for schemas of Avro",
            hint="give value_schema_type = 'avro', or no value_compatibility",
            field="value_compatibility",
        )
    if values_of(text, kind) is not None and kind != "avro":
        check_cost(orjson.loads(text))


def check_next(rule: str | None, text: str, earlier: Sequence[str]) -> None:
    """Raise `InvalidRequest` if a schema may not follow the `earlier` ones, the oldest first."""
    if len(earlier) >= MOST_VERSIONS:
        raise InvalidRequest(
            f"the topic has had {len(earlier)} schemas, at most {MOST_VERSIONS}",
            hint="create another topic, and copy the records",
            field="value_schema",
        )
    plain = (rule or "none").removesuffix("_transitive")
    new = AvroSchema(text)
    compared = earlier if plain != rule else earlier[-1:]
    for number, old_text in reversed(list(enumerate(earlier, 1))):
        if old_text not in compared:
            continue
        old = AvroSchema(old_text)
        for word, fault in _faults(plain, new, old):
            if fault is not None:
                raise InvalidRequest(
                    f"value_schema is not {word} compatible with version {number}: {fault}",
                    hint="give new fields a default, and keep the types of the others; or set "
                    "value_compatibility to none",
                    field="value_schema",
                )


def _faults(rule: str, new: AvroSchema, old: AvroSchema) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    if rule in {"backward", "full"}:
        found.append(("backward", unreadable(new, old)))
    if rule in {"forward", "full"}:
        found.append(("forward", unreadable(old, new)))
    return found
