"""What the slices of the settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Slice(BaseModel):
    """The settings of one component."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
