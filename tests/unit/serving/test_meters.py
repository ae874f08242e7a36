"""What is counted, and how many series that may become."""

from __future__ import annotations

from lakequeue.metrics.declaring import MOST_VALUES, OTHER, Kind, Metric
from serving.meters import FORGOTTEN_AFTER_S, Meters

BY_GROUP = Metric("lakequeue_tried_total", Kind.COUNTER, "tries", ("group",))
MOVED = Metric("lakequeue_moved_total", Kind.COUNTER, "moves", ("why",), known=(("lost",),))


def value(meters: Meters, line: str) -> float | None:
    """Of the series with this name and these labels; None if there is none."""
    for said in meters.text().decode().splitlines():
        if said.startswith(f"{line} "):
            return float(said.rpartition(" ")[2])
    return None


def test_what_is_known_to_happen_is_shown_as_0_before_it_does() -> None:
    meters = Meters([MOVED])
    meters.counts(MOVED)
    assert value(meters, 'lakequeue_moved_total{why="lost"}') == 0
    assert value(meters, 'lakequeue_moved_total{why="taken"}') is None
    meters.count(MOVED, 100, "lost")
    assert value(meters, 'lakequeue_moved_total{why="lost"}') == 100


def test_groups_that_are_gone_make_room_for_those_that_come() -> None:
    now = [0.0]
    meters = Meters([BY_GROUP], clock=lambda: now[0])
    for number in range(MOST_VALUES):
        meters.count(BY_GROUP, 1, f"g{number}")
    now[0] = 1.0
    meters.count(BY_GROUP, 1, "new")
    assert value(meters, 'lakequeue_tried_total{group="new"}') is None
    assert value(meters, f'lakequeue_tried_total{{group="{OTHER}"}}') == 1

    now[0] = FORGOTTEN_AFTER_S
    meters.count(BY_GROUP, 1, "g0")
    meters.count(BY_GROUP, 1, "new")
    assert value(meters, 'lakequeue_tried_total{group="new"}') == 1
    assert value(meters, 'lakequeue_tried_total{group="g0"}') == 2, "it is there still"
    assert value(meters, 'lakequeue_tried_total{group="g1"}') is None
    shown = [line for line in meters.text().decode().splitlines() if line.startswith("lakequeue_")]
    assert len(shown) == MOST_VALUES + 1
