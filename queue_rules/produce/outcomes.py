"""What became of a row that was sent. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """What became of a row. Refused: `reason` is set, and there is no offset."""

    partition: int
    offset: int | None
    duplicate: bool = False
    reason: str | None = None
