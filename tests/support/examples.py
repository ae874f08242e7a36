"""How many examples a property is tried with: half as many as CI tries, unless told otherwise.

`PROPERTY_EXAMPLES=1` tries all of them, as `.ci/run` does, `PROPERTY_EXAMPLES=10` ten times as
many.
"""

from __future__ import annotations

import os

_SHARE = float(os.environ.get("PROPERTY_EXAMPLES", "0.5"))


def examples(every: int) -> int:
    """So many of `every`."""
    return max(1, round(every * _SHARE))
