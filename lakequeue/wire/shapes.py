"""What every shape of the wire has in common."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

AS_JSON = {"json": True}
"""Context of a validation whose values were JSON: a number is no text and no truth value there."""
T = TypeVar("T")


class _UpToTheFirstFault:
    """Of a list: what is behind the first element that is wrong is not looked at."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return {**handler(source), "fail_fast": True}


Items = Annotated[list[T], _UpToTheFirstFault()]
"""A list in a request: a million elements that are wrong take no more than one."""


def at_most(most: int) -> BeforeValidator:
    """Of an object: its size is looked at before what is in it."""

    def checked(given: Any) -> Any:
        if isinstance(given, dict) and len(given) > most:
            raise PydanticCustomError(
                "too_long", "Object should have at most {most} names", {"most": most}
            )
        return given

    return BeforeValidator(checked)


_WORDS = {int: "a whole number", float: "a number", bool: "true or false"}


class SendShape(BaseModel):
    """What comes with every send: whoever reads it takes `one_unknown_name` of it first.

    A validator of the whole model would make each send slower.
    """

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _has_its_type(cls, value: Any, info: ValidationInfo) -> Any:
        """In JSON `true` is not 1, and `"1"` is not either; query parameters are all texts."""
        if info.context is AS_JSON:
            kind: Any = cls.model_fields[info.field_name or ""].annotation
            if not _fits(kind, value):
                wanted = " or ".join(_WORDS.get(k, "another type") for k in _kinds_of(kind))
                raise PydanticCustomError(
                    "type_of_json", "Input should be {wanted}", {"wanted": wanted}
                )
        return value


class RequestShape(SendShape):
    """A shape of the wire: unknown fields of a request are refused."""

    @model_validator(mode="before")
    @classmethod
    def _one_is_enough(cls, given: Any) -> Any:
        return one_unknown_name(cls, given)


def one_unknown_name(shape: type[BaseModel], given: Any) -> Any:
    """`given` with what the shape knows, and one name that it does not.

    A million unknown names would be as many faults, and one of them is told.
    """
    if not isinstance(given, dict) or len(given) <= 2 * len(shape.model_fields):
        return given
    known = {*shape.model_fields, *(field.alias for field in shape.model_fields.values())}
    unknown = next(name for name in given if name not in known)
    return {name: given[name] for name in known if name in given} | {unknown: given[unknown]}


class AnswerShape(BaseModel):
    """A shape that a server answers with: a newer server may add fields."""

    model_config = ConfigDict(extra="ignore")


def _fits(kind: Any, value: Any) -> bool:
    """False: pydantic would make what it is not of it. All else is for pydantic to judge."""
    kinds = _kinds_of(kind)
    if isinstance(value, list):
        items = next((get_args(k)[0] for k in kinds if get_origin(k) is list), Any)
        return not _WORDS.keys() >= set(_kinds_of(items)) or all(_fits(items, v) for v in value)
    if not _WORDS.keys() >= set(kinds):
        return True
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, str):
        return False
    return not isinstance(value, int | float) or kinds != (bool,)


@cache
def _kinds_of(kind: Hashable) -> tuple[Any, ...]:
    """The alternatives of an annotation, without null."""
    found: Any = kind
    if get_origin(found) is Annotated:
        inner, *also = get_args(found)
        # Some read what was sent in a way of their own.
        own = any(isinstance(one, BeforeValidator) for one in also)
        return (Any,) if own else _kinds_of(inner)
    if get_origin(found) in {Union, UnionType}:
        return tuple(one for part in get_args(found) for one in _kinds_of(part))
    return () if found is NoneType else (found,)
