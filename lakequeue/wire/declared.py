"""How a setting of a topic or a group is declared: once, and everything else is made from that.

A setting is an annotated field of `TopicSettings` or `GroupOptions`. From its `Setting` come the
validation of requests and the OpenAPI document, the columns of the table `topics`, the options of
the command line, and the tables in the documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    GetJsonSchemaHandler,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticKnownError

from lakequeue.wire.shapes import RequestShape

Unit = Literal["ms", "bytes", "percent"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is said of a setting beside its name, its type and its default."""

    doc: str
    """What it is, as half a sentence."""
    null: str | None = None
    """What null means."""
    least: int | None = None
    """Of a number; of text, its characters."""
    most: int | None = None
    stands_for: int | str | None = None
    """What holds where null is given by everybody."""
    of_queues: bool = False
    """It is for queue groups only."""
    alterable: bool = True
    option: str | None = None
    """Its name on the command line, where it is not that of the setting without the unit."""
    negation: str | None = None
    """Of a truth value: the option that says the opposite."""
    from_file: bool = False
    """The command line takes the name of a file with it."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = dict(handler(core))
        for branch in schema.get("anyOf", [schema]):
            names = _BOUNDS_IN_SCHEMA.get(branch.get("type", ""), ())
            bounds = zip(names, (self.least, self.most), strict=False)
            branch.update({name: bound for name, bound in bounds if bound is not None})
        return schema | {"description": self.sentence}

    @property
    def sentence(self) -> str:
        """What it is, and what null means."""
        return self.doc if self.null is None else f"{self.doc}; null: {self.null}"


_BOUNDS_IN_SCHEMA = {"integer": ("minimum", "maximum"), "string": ("minLength", "maxLength")}


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting with its name, its type and its default."""

    name: str
    type: Any
    """Without null."""
    nullable: bool
    default: Any
    setting: Setting

    @property
    def unit(self) -> Unit | None:
        """What its number counts: the end of its name."""
        end = self.name.rpartition("_")[2]
        return next((unit for unit in get_args(Unit) if unit == end), None)


def declared(model: type[BaseModel]) -> Iterator[Declared]:
    """The settings among the fields of a model, in order."""
    for name, field in model.model_fields.items():
        setting = _setting_of(field)
        if setting is not None:
            kinds = get_args(field.annotation)
            nullable = NoneType in kinds
            kind = next(k for k in kinds if k is not NoneType) if nullable else field.annotation
            yield Declared(name, kind, nullable, field.default, setting)


def _setting_of(field: FieldInfo) -> Setting | None:
    return next((one for one in field.metadata if isinstance(one, Setting)), None)


class SettingsRequest(RequestShape):
    """A request that gives settings: each is held to its bounds.

    Answers are not: a newer server may allow more.
    """

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: Any, info: ValidationInfo) -> Any:
        setting = _setting_of(cls.model_fields[info.field_name or ""])
        if setting is None or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            _check(len(value), setting, "string_too_short", "min_length", "string_too_long")
        else:
            _check(value, setting, "greater_than_equal", "ge", "less_than_equal")
        return value


_MOST_NAMES = {"min_length": "max_length", "ge": "le"}


def _check(size: int, setting: Setting, below: Any, least_name: str, above: Any) -> None:
    if setting.least is not None and size < setting.least:
        raise PydanticKnownError(below, {least_name: setting.least})
    if setting.most is not None and size > setting.most:
        raise PydanticKnownError(above, {_MOST_NAMES[least_name]: setting.most})


def changes_of(
    model: type[BaseModel], name: str, doc: str, **also: tuple[Any, Setting]
) -> type[SettingsRequest]:
    """The request that changes some of the settings: each that may be altered may be left out."""
    fields = {
        one.name: (one.type | None if one.nullable else one.type, one.setting)
        for one in declared(model)
        if one.setting.alterable
    }
    given: dict[str, Any] = {
        field: (Annotated[kind, setting], None)
        for field, (kind, setting) in (fields | also).items()
    }
    return create_model(name, __base__=SettingsRequest, __doc__=doc, __module__=__name__, **given)
