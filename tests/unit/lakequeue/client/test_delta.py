"""Where a round of effects begins, by the mark of the result table."""

from __future__ import annotations

import pytest

from lakequeue.results.declared import app_id
from lakequeue.results.mark import Resume, resume


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        (None, Resume(10, 0)),
        (10, Resume(10, 0)),
        (14, Resume(14, 0)),
        (20, Resume(20, 0)),
        (31, Resume(20, 0)),
        (7, Resume(10, 3)),
    ],
)
def test_offsets_10_to_19_are_written_from_where_the_table_ends(
    done: int | None, expected: Resume
) -> None:
    assert resume(done, 10, 20) == expected


def test_the_mark_is_of_a_group_and_a_partition() -> None:
    assert app_id("g", "t1", 3) == "lakequeue/g/t1/3"
