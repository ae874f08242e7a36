"""The predicate of a group, from its options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from queue_rules.predicates.expressions import Condition


@lru_cache(1_000)
def predicate_in(options: str) -> Condition | None:
    """The predicate in the options of a group (JSON). Raises `InvalidRequest`."""
    return predicate_of(orjson.loads(options or "{}"))


def predicate_of(options: Mapping[str, Any]) -> Condition | None:
    """The predicate in the options of a group. Raises `InvalidRequest`."""
    text = options.get("predicate")
    return None if text is None else _parsed(str(text))


def check_new(options: Mapping[str, Any]) -> None:
    """Judge the predicate of a group that is about to be made. Raises `InvalidRequest`.

    Stricter than for groups that are there: a time as a number before 1973 is refused, as in every
    call that takes a time. Groups of earlier releases may have one, and keep it.
    """
    text = options.get("predicate")
    if text is not None:
        # See `_parsed`.
        from queue_rules.predicates.parsing import parse

        parse(str(text), judge_times=True)


@lru_cache(1_000)
def _parsed(text: str) -> Condition:
    # The parser takes a third of a second to load, and most nodes never need it.
    from queue_rules.predicates.parsing import parse

    return parse(text)
