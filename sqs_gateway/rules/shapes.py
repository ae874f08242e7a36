"""How the input of an operation is declared, and read from JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from sqs_gateway.rules.errors import NOT_READABLE, SqsError, invalid, missing

Input = dict[str, Any]
_MOST_WHOLE: Final = 2**31 - 1


class Kind(Enum):
    """What a parameter is."""

    TEXT = "text"
    WHOLE = "whole number"
    TEXTS = "list of texts"
    MAP = "map of texts"
    ATTRIBUTES = "map of message attributes"
    ENTRIES = "list of entries"


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter."""

    name: str
    kind: Kind = Kind.TEXT
    required: bool = False
    least: int | None = None
    most: int | None = None
    query: str | None = None
    """Its name in the query protocol, if it is another one; a list and a map are flat there."""
    entry: tuple[Field, ...] = ()
    """What an entry of a list has."""

    @property
    def query_name(self) -> str:
        """Its name in the query protocol."""
        return self.query or self.name


def whole(name: str, least: int, most: int, *, required: bool = False) -> Field:
    """A whole number within bounds."""
    return Field(name, Kind.WHOLE, required, least, most)


def read(fields: Sequence[Field], given: Mapping[str, Any]) -> Input:
    """The parameters that are given and known. Raises `SqsError`.

    What an entry of a batch lacks, or has out of bounds, is said of that entry alone, later.
    """
    found = typed(fields, given)
    check(fields, found)
    return found


def typed(fields: Sequence[Field], given: Mapping[str, Any]) -> Input:
    """The parameters, each of its type. Raises `SqsError`."""
    return {
        field.name: _READERS[field.kind](field, value)
        for field in fields
        if (value := given.get(field.name)) is not None
    }


def check(fields: Sequence[Field], found: Input) -> None:
    """Raise `SqsError` for what is missing or out of bounds."""
    for field in fields:
        value = found.get(field.name)
        if value is None or value == "":
            if field.required and field.kind is not Kind.ENTRIES:
                raise missing(field.name)
        elif field.kind is Kind.WHOLE and not _within(field, value):
            reason = f"Must be >= {field.least} and <= {field.most}, if provided."
            raise invalid(field.name, value, reason)


def _within(field: Field, value: int) -> bool:
    return (field.least is None or value >= field.least) and (
        field.most is None or value <= field.most
    )


def _wrong(field: Field, value: Any) -> SqsError:
    return SqsError(
        NOT_READABLE, f"{field.name} is {type(value).__name__}, and must be a {field.kind.value}."
    )


def _text(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(field, value)
    return value


def _whole(field: Field, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(field, value)
    if not -_MOST_WHOLE - 1 <= value <= _MOST_WHOLE:
        raise SqsError(NOT_READABLE, f"{field.name} is too large for a whole number of 32 bits.")
    return value


def _texts(field: Field, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _wrong(field, value)
    return value


def _map(field: Field, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise _wrong(field, value)
    return value


def _attributes(field: Field, value: Any) -> dict[str, dict[str, str]]:
    if not isinstance(value, dict):
        raise _wrong(field, value)
    for one in value.values():
        if not isinstance(one, dict):
            raise _wrong(field, one)
        for name in ("DataType", "StringValue", "BinaryValue"):
            if one.get(name) is not None and not isinstance(one[name], str):
                raise _wrong(field, one[name])
        for name in ("StringListValues", "BinaryListValues"):
            if one.get(name):
                raise invalid(field.name, name, "List values are reserved and not supported.")
    return value


def _entries(field: Field, value: Any) -> list[Input]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise _wrong(field, value)
    return [typed(field.entry, one) for one in value]


_READERS: Final[Mapping[Kind, Callable[[Field, Any], Any]]] = {
    Kind.TEXT: _text,
    Kind.WHOLE: _whole,
    Kind.TEXTS: _texts,
    Kind.MAP: _map,
    Kind.ATTRIBUTES: _attributes,
    Kind.ENTRIES: _entries,
}
