"""What every shape of the wire has in common."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

AS_JSON = {"json": True}
"""Context of a validation whose values were JSON: a number is no text and no truth value there."""
_WORDS = {int: "a whole number", float: "a number", bool: "true or false"}


class RequestShape(BaseModel):
    """A shape of the wire: unknown fields of a request are refused."""

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
