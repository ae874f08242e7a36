"""How much of one partition may be unsettled; then new records are not looked at. Pure."""

from __future__ import annotations

MAX_OPEN: int = 10_000
"""Records in flight or dying: between them lie the acked ranges."""
MAX_WAITING: int = 1_000_000
"""Records that wait for their key, 8 bytes of memory each. So a hot key holds up no other."""
MAX_RANGES: int = 20_000
"""Ranges of offsets that were looked at: what waits lies between them. Each fold writes them."""


def held_back(in_flight: int, waiting: int, ranges: int) -> str | None:
    """Why new records are not looked at; None when they are."""
    if in_flight < MAX_OPEN and waiting < MAX_WAITING and ranges < MAX_RANGES:
        return None
    return (
        f"{in_flight} records are in flight or dying ({MAX_OPEN} at most), {waiting} wait for "
        f"their key ({MAX_WAITING}), between {ranges} ranges that were looked at ({MAX_RANGES}): "
        "settle some"
    )
