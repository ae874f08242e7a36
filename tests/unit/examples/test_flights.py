"""What the demo shows: counters that fit each other, and a picture that a browser can draw."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from examples.flights.picture import Sample, Story, draw
from examples.flights.proof import Proof, as_file, told
from examples.flights.recording import Acknowledged, Received
from examples.flights.screen import Counts

PROOF = Proof(
    produced=10,
    ordered=10,
    delivered=10,
    lost=0,
    duplicated=0,
    out_of_order=0,
    redelivered=2,
    split_keys=0,
)


def write(path: Path, rows: list[dict[str, int]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - it is our own


def test_no_counter_is_ahead_of_the_one_before_it() -> None:
    assert Counts.of(3_196, 4_954, 100) == Counts(4_954, 4_954, 100)
    assert Counts.of(10, 5, 7) == Counts(10, 7, 7)


def test_a_record_that_is_delivered_twice_counts_once(tmp_path: Path) -> None:
    received = Received(tmp_path)
    rows = [{"partition": 0, "offset": offset} for offset in (0, 1)]
    write(tmp_path / "consumer-1.jsonl", rows)
    assert received.count() == 2
    write(tmp_path / "consumer-3.jsonl", [*rows, {"partition": 0, "offset": 2}])
    assert received.count() == 3
    assert received.by_consumer == {"1": 2, "3": 3}


def test_a_line_that_is_being_written_counts_when_it_is_whole(tmp_path: Path) -> None:
    acknowledged = Acknowledged(tmp_path)
    line = json.dumps({"n": 1, "partition": 0})
    path = tmp_path / "producer-0.jsonl"
    path.write_text(f"{line}\n{line[:5]}")
    assert acknowledged.count() == 1
    path.write_text(f"{line}\n{line}\n")
    assert acknowledged.count() == 2


def test_the_picture_has_a_curve_for_each_and_the_moment_of_the_kill() -> None:
    story = Story(
        [Sample(0.0, 0, 0, 0, {}), Sample(2.0, 10, 8, 6, {"1": 4, "2": 2})],
        [(1.0, "consumer 2 killed")],
    )
    found = parsed(draw(story, 10, "<verdict>"))
    curves = found.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(curves) == 5
    said = [one.text for one in found.iter("{http://www.w3.org/2000/svg}text")]
    assert {"consumer 2 killed", "<verdict>", "consumer 1", "ordered"} <= {*said}


def test_an_empty_run_has_a_picture_too() -> None:
    assert parsed(draw(Story(), 1, "")).tag.endswith("svg")


def test_every_count_of_the_proof_is_told_with_its_sql(tmp_path: Path) -> None:
    lines = "\n".join(told(PROOF))
    assert "never delivered" in lines
    assert "ANTI JOIN" in lines
    text = as_file("root", tmp_path)
    assert all(f"-- {name}:" in text for name in Proof.__dataclass_fields__)
    # In DuckDB, that of delta-rs leaves rows out: docs/spark.md.
    assert "to_pyarrow_dataset" not in text
