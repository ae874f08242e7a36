"""The predicate of a group, from its options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from queue_rules.predicates.terms import Condition


@lru_cache(1_000)
def predicate_in(options: str) -> Condition | None:
    """The predicate in the options of a group (JSON). Raises `InvalidRequest`."""
    return predicate_of(orjson.loads(options or "{}"))


def predicate_of(options: Mapping[str, Any]) -> Condition | None:
    """The predicate in the options of a group. Raises `InvalidRequest`."""
    text = options.get("predicate")
    return None if text is None else _parsed(str(text))


@lru_cache(1_000)
def _parsed(text: str) -> Condition:
    # The parser takes a third of a second to load, and most nodes never need it.
    from queue_rules.predicates.parsing import parse

    return parse(text)
