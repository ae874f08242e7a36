"""What a table of a benchmark says of several rounds."""

from __future__ import annotations

from pathlib import Path

from bench import machine, readme
from bench.figures import Figure, Line, spread, table
from tests.support.machine import idle_machine

LINE = Line(
    "ready",
    (
        Figure(lambda one: one["p50"], "ms", "p50", "time"),
        Figure(lambda one: one["p99"], "ms", "p99", "time", at_most=80),
    ),
)
RATE = Line("ordering", (Figure(lambda one: one["rate"], "MB/s", kind="rate", at_least=100),))


def _rounds(*p99: float) -> list[dict[str, float]]:
    return [{"p50": 25.0, "p99": each, "rate": 198.0} for each in p99]


def test_a_figure_is_the_median_of_the_rounds_with_its_ends() -> None:
    assert spread([90.0, 60.0, 75.0]).shown() == "75 (60–90)"
    assert spread([1.5]).shown(1) == "1.5"


def test_a_line_gives_the_target_and_the_ratio_to_the_machine() -> None:
    name, found, loops, target = LINE.cells(_rounds(60, 70, 95), loop_s=0.25)
    assert (name, target) == ("ready", "p99 ≤ 80 ms")
    assert found == "p50 25 ms, p99 70 (60–95) ms"
    assert loops == "p50 0.1 loops, p99 0.28 loops"
    assert RATE.cells([{"rate": 198_507.0}], loop_s=0.25)[2] == "49,627 MB a loop"
    assert RATE.cells(_rounds(1), loop_s=0.25)[2:] == ("50 MB a loop", "≥ 100 MB/s")


def test_a_line_whose_median_misses_the_target_says_so() -> None:
    assert LINE.cells(_rounds(60, 81, 95), loop_s=0.25)[3] == "**missed**: p99 ≤ 80 ms"
    slow = [{"rate": 99.0}]
    assert RATE.cells(slow, loop_s=0.25)[3] == "**missed**: ≥ 100 MB/s"


def test_a_table_says_how_many_rounds_there_were() -> None:
    assert "median of 2 rounds" in table([LINE], _rounds(60, 70), 0.25)[0]
    assert "| found |" in table([LINE], _rounds(60), 0.25)[0]


def test_a_part_of_a_page_is_replaced_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- /x -->\nb\n")
    readme.put("x", "new\n", page)
    assert page.read_text() == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"


def test_a_busy_machine_is_named_in_the_sentence() -> None:
    where = idle_machine()
    assert "Others used the machine" not in machine.sentence(where)
    where["speed"]["load"] = 3.0
    assert "do not quote" in machine.sentence(where)


def test_a_copy_and_a_sync_take_time() -> None:
    found = machine.speed(times=1, additions=10_000, syncs=3, copied_bytes=1 << 20)
    assert found["loop_s"] > 0
    assert 0 < found["fdatasync_p50_ms"] <= found["fdatasync_p99_ms"]
    assert found["copy_gb_per_s"] > 0
