"""How often a record is delivered: settings that a topic and a queue group have in common.

The topic's come before the group's. What stands for null in both is declared here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakequeue.wire.declared import Setting
from lakequeue.wire.limits import MAX_ATTEMPTS, MAX_BACKOFF_MS

DEFAULT_MAX_ATTEMPTS: Final = 16
DEFAULT_BACKOFF_MS: Final = 1_000
DEFAULT_BACKOFF_MAX_MS: Final = 300_000
DEFAULT_JITTER_PERCENT: Final = 20

ATTEMPTS: Final = Setting(
    "deliveries until a record is dead",
    "the group's",
    least=1,
    most=MAX_ATTEMPTS,
    stands_for=DEFAULT_MAX_ATTEMPTS,
)
BACKOFF: Final = Setting(
    "delay after the first failed delivery, doubled after each further one",
    "the group's",
    least=0,
    most=MAX_BACKOFF_MS,
    stands_for=DEFAULT_BACKOFF_MS,
)
BACKOFF_MAX: Final = Setting(
    "longest such delay",
    "the group's",
    least=0,
    most=MAX_BACKOFF_MS,
    stands_for=DEFAULT_BACKOFF_MAX_MS,
)
BACKOFF_JITTER: Final = Setting(
    "random part of a delay, in percent",
    "the group's",
    least=0,
    most=100,
    stands_for=DEFAULT_JITTER_PERCENT,
)


def of_group(setting: Setting) -> Setting:
    """The same of a group: nobody comes after it, so null is what stands for it."""
    return replace(setting, null=None, of_queues=True)
