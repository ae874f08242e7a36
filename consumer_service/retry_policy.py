"""How often a record is delivered, and how long it rests in between. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

DEFAULT_VISIBILITY_MS = 30_000
DEFAULT_MAX_ATTEMPTS = 16
DEFAULT_BACKOFF_MS = 1_000
DEFAULT_BACKOFF_MAX_MS = 300_000
DEFAULT_JITTER_PERCENT = 20
DEFAULT_MAX_IN_FLIGHT = 1_000


@dataclass(frozen=True, slots=True)
class Policy:
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


def backoff_ms(policy: Policy, attempt: int, random: Random) -> int:
    """The rest after failed attempt `attempt` (from 1): doubles, up to the cap, with jitter.

    Jitter takes away up to `jitter_percent` of the rest, so that what failed together does not
    come back together, and the cap is never passed.
    """
    doubled = policy.backoff_ms << min(attempt - 1, 62)
    full = min(doubled, policy.backoff_max_ms)
    return full - int(full * policy.jitter_percent / 100 * random.random())
