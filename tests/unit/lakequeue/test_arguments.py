"""Times and durations as people write them."""

from __future__ import annotations

import pytest

from lakequeue.arguments import WrongUsage, past_of

NOW = 10_000_000_000


@pytest.mark.parametrize(
    ("text", "at"),
    [("2s", NOW - 2_000_000), ("1h", NOW - 3_600_000_000), ("5000", 5_000_000),
     ("1970-01-01T01:00:00Z", 3_600_000_000)],
)  # fmt: skip
def test_a_duration_is_that_long_ago_and_anything_else_a_time(text: str, at: int) -> None:
    assert past_of(text, NOW) == at


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(WrongUsage, match="yesterday"):
        past_of("yesterday", NOW)
