"""What the slices of the settings have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

MOST_S = 1_000_000_000
"""Thirty years. No wait of Python or Java takes the longest numbers: it would fail when it begins,
in a thread of its own."""
_MOST = 1 << 62


class Slice(BaseModel):
    """The settings of one component."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _can_be_counted(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        most = _MOST
        if name.endswith("_ms"):
            most = MOST_S * 1_000
        elif name.endswith("_s") and not name.endswith("_per_s"):
            most = MOST_S
        if isinstance(value, int | float) and value > most:
            raise ValueError(f"at most {most}")
        return value
