"""What is known, or why it is not. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """Why something could not be found out, in words."""

    detail: str
    hint: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What is known: a value, why there is none or no newer one, and how old the value is."""

    value: T | None
    failed: Failed | None = None
    age_s: float = 0.0


ASKING = "asking"
"""The code of what was asked for just now: it is no failure yet."""
_SOON_S = 0.7


def late(what: str, within_s: float) -> Failed:
    """What is said of something that has not answered."""
    if within_s < _SOON_S:
        return Failed(f"{what}: asked for just now", code=ASKING)
    return Failed(
        f"{what}: no answer within {within_s:.1f} s",
        "it may be down, or hang; the other parts of this page do not wait for it",
        "no_answer",
    )
