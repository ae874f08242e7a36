"""The columns of a table that hold settings, from the declaration of these. Pure."""

from __future__ import annotations

from pydantic import BaseModel

from lakequeue.wire.declared import Declared, declared
from queue_tables.delta.columns import Column, Kind


def settings_columns(model: type[BaseModel]) -> list[Column]:
    """One column a setting, in order. Times and sizes are long, other numbers int."""
    return [
        Column(
            one.name,
            _kind(one),
            one.setting.sentence,
            least=one.setting.least,
            most=one.setting.most,
        )
        for one in declared(model)
    ]


def _kind(one: Declared) -> Kind:
    if one.type is bool:
        return "bool"
    if one.type is int:
        return "long" if one.unit in {"ms", "bytes"} else "int"
    return "string"
