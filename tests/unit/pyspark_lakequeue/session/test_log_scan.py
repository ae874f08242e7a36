"""The condition on `log` is true for exactly the rows that are wanted."""

from __future__ import annotations

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from pyspark_lakequeue.session.log_scan import MOST_BOUNDED, Bounds, scan_condition
from pyspark_lakequeue.source.vectors import Place

IDS = {"orders": "id-orders", "flights": "id-flights"}
PARTITIONS, OFFSETS = range(4), range(6)
LOG = [(name, p, o) for name in ("orders", "flights", "other") for p in PARTITIONS for o in OFFSETS]

edges = st.none() | st.integers(0, 6)
places = st.sampled_from([Place(name, p) for name in IDS for p in PARTITIONS])


def found(condition: str | None) -> list[tuple[str, int, int]]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE log (topic, topic_id, `partition`, `offset`)")
    rows = [(name, f"id-{name}", p, o) for name, p, o in LOG]
    database.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
    query = f"SELECT topic, `partition`, `offset` FROM log WHERE {condition}"
    return sorted(database.execute(query).fetchall())


@given(st.dictionaries(places, st.builds(Bounds, edges, edges)), st.booleans())
def test_it_is_true_for_what_is_wanted_and_nothing_else(
    bounds: dict[Place, Bounds], every_partition: bool
) -> None:
    wanted = []
    for name, partition, offset in LOG:
        bound = bounds.get(Place(name, partition), Bounds() if every_partition else None)
        if name not in IDS or bound is None:
            continue
        high = offset + 1 if bound.high is None else bound.high
        if (bound.low or 0) <= offset < high:
            wanted.append((name, partition, offset))
    assert found(scan_condition(IDS, bounds, every_partition=every_partition)) == sorted(wanted)


def test_too_many_bounds_are_not_put_into_a_condition() -> None:
    bounds = {Place("orders", p): Bounds(1) for p in range(MOST_BOUNDED + 1)}
    assert scan_condition(IDS, bounds, every_partition=True) is None
    whole = {place: Bounds() for place in bounds}
    assert found(scan_condition(IDS, whole, every_partition=True)) == [
        row for row in sorted(LOG) if row[0] in IDS
    ]
