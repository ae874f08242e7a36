"""How often a record is delivered, and how long it rests in between. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name
from lakequeue.wire import GroupOptions
from lakequeue.wire.calls.retries import (
    DEFAULT_BACKOFF_MAX_MS,
    DEFAULT_BACKOFF_MS,
    DEFAULT_JITTER_PERCENT,
    DEFAULT_MAX_ATTEMPTS,
)
from lakequeue.wire.limits import DEFAULT_VISIBILITY_MS
from queue_rules.queues.undecodable_policy import check_policy
from queue_tables.schema.topic_rules import Topic, check_dead_letters


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The rules of one partition in one queue group."""

    visibility_ms: int = DEFAULT_VISIBILITY_MS
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    backoff_ms: int = DEFAULT_BACKOFF_MS
    backoff_max_ms: int = DEFAULT_BACKOFF_MAX_MS
    jitter_percent: int = DEFAULT_JITTER_PERCENT
    key_order: bool = False
    """A key's next record only after the one before it is settled."""
    dead_letter_expired: bool = False
    """Expired records go to the dead-letter topic, and do not just end."""


def backoff_ms(policy: RetryPolicy, attempt: int, random: Random) -> int:
    """The rest after failed attempt `attempt` (from 1): doubles, up to the cap, with jitter.

    Jitter takes away up to `jitter_percent` of the rest, so that what failed together does not
    come back together, and the cap is never passed.
    """
    doubled = policy.backoff_ms << min(attempt - 1, 62)
    full = min(doubled, policy.backoff_max_ms)
    return full - int(full * policy.jitter_percent / 100 * random.random())


def policy_of(options: Mapping[str, Any], topic: Topic | None) -> RetryPolicy:
    """The rules for a topic in a group with these options: the topic's go before the group's."""

    def chosen(name: str, default: int) -> int:
        own = getattr(topic, name, None)
        value = options.get(name) if own is None else own
        return default if value is None else int(value)

    return RetryPolicy(
        visibility_ms=int(options.get("visibility_timeout_ms") or DEFAULT_VISIBILITY_MS),
        max_attempts=chosen("max_attempts", DEFAULT_MAX_ATTEMPTS),
        backoff_ms=chosen("backoff_ms", DEFAULT_BACKOFF_MS),
        backoff_max_ms=chosen("backoff_max_ms", DEFAULT_BACKOFF_MAX_MS),
        jitter_percent=chosen("backoff_jitter_percent", DEFAULT_JITTER_PERCENT),
        key_order=options.get("ordering") == "key",
        dead_letter_expired=topic is not None and topic.on_expired == "dead_letter",
    )


def check_retry(
    request: GroupOptions, topics: Sequence[Topic], others: Mapping[str, Topic]
) -> None:
    """Raise `InvalidRequest` for options of a queue group that do not go together."""
    check_policy("queue", request.undecodable)
    first_ms, longest_ms = request.backoff_ms, request.backoff_max_ms
    if first_ms is not None and longest_ms is not None and longest_ms < first_ms:
        raise InvalidRequest(
            f"backoff_max_ms {longest_ms} is below backoff_ms {first_ms}",
            hint="raise backoff_max_ms, or lower backoff_ms",
            field="backoff_max_ms",
        )
    if request.dead_letter_topic is not None:
        target = checked_name(request.dead_letter_topic, "dead_letter_topic")
        for topic in topics:
            check_dead_letters(topic.topic, topic.config | {"dead_letter_topic": target}, others)
