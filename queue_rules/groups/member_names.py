"""The id of a member: how its client calls itself, and what no other member has. Pure."""

from __future__ import annotations

import re
from typing import Final

MOST_CHARS: Final = 64
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")


def member_id_of(client: str, unique: str) -> str:
    """`till-7` and `3f2a…` are `till-7-3f2a…`: people look for the first part in SQL.

    It stands in paths, of URLs and of ZooKeeper: other characters become a `-`.
    """
    plain = _NOT_PLAIN.sub("-", client).strip("-.")[:MOST_CHARS]
    return f"{plain}-{unique}" if plain else unique
