"""What every shape of the wire has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class RequestShape(BaseModel):
    """A shape of the wire: unknown fields of a request are refused."""

    model_config = ConfigDict(extra="forbid")


class AnswerShape(BaseModel):
    """A shape that a server answers with: a newer server may add fields."""

    model_config = ConfigDict(extra="ignore")
