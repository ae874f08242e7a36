"""How far a stream is behind, from the offsets that Spark reports."""

from __future__ import annotations

import json

from pyspark_lakequeue.session.progress import offsets_behind_latest
from pyspark_lakequeue.source.vectors import Place, Vector

A0, A1, B0 = Place("a", 0), Place("a", 1), Place("b", 0)


def test_the_figures_are_those_of_the_kafka_source() -> None:
    end = Vector({A0: 5, A1: 7}, {"a": "3f"}).to_json()
    latest = Vector({A0: 5, A1: 9, B0: 4}, {"a": "3f", "b": "4e"}).to_json()
    expected = [
        {
            "minOffsetsBehindLatest": "0",
            "maxOffsetsBehindLatest": "4",
            "avgOffsetsBehindLatest": "2.0",
        }
    ]
    for end_said, latest_said in ((end, latest), (json.dumps(end), json.dumps(latest))):
        source = {"endOffset": end_said, "latestOffset": latest_said}
        assert offsets_behind_latest({"sources": [source]}) == expected


def test_a_source_of_another_kind_has_none() -> None:
    for other in (None, "null", 5, "{", '{"reservoirVersion": 3}', {"a": 3}):
        source = {"endOffset": other, "latestOffset": other}
        assert offsets_behind_latest({"sources": [source]}) == [{}]
