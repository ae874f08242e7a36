"""How many records one poll of a queue group may take, while others ask as well. Pure."""

from __future__ import annotations


def fair_share(available: int, has: int, others: int, asking: int, *, due: bool = False) -> int:
    """How many of `available` a poll may take, so that all who ask have as many in the end.

    `has`: what its member holds already, `others`: what the other members hold that ask. Whoever
    holds nothing gets one. Members that do not ask wait for nothing, and are not counted. `due`: a
    deadline has passed, perhaps of what is counted as held, so one more look is worth it.
    """
    fair = -(-(available + has + others) // max(1, asking))
    return max(1, fair - has) if due or not has else fair - has
