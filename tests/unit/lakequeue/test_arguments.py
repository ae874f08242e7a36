"""Times and durations as people write them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from lakequeue.arguments import bytes_of, micros_of, past_of
from lakequeue.errors import WrongUsage
from lakequeue_cli.app import app

NOW = 10_000_000_000


@pytest.mark.parametrize(
    ("text", "at"),
    [("2s", NOW - 2_000_000), ("1h", NOW - 3_600_000_000),
     ("1359615600000", 1_359_615_600_000_000), ("1970-01-01T01:00:00Z", 3_600_000_000)],
)  # fmt: skip
def test_a_duration_is_that_long_ago_and_anything_else_a_time(text: str, at: int) -> None:
    assert past_of(text, NOW) == at


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(WrongUsage, match="yesterday"):
        past_of("yesterday", NOW)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1359615600", "time 1359615600 is before 1973: seconds"),
        ("0", "before 1973"),
        ("1359615600000000", "not between the years 1900 and 2199"),
        ("9" * 400, "not between the years"),
        ("1359-01-31T07:00:00Z", "not between the years"),
    ],
)
def test_a_time_of_another_unit_is_refused(text: str, why: str) -> None:
    with pytest.raises(WrongUsage, match=why):
        micros_of(text)


def test_bytes_are_read_as_base64_or_hexadecimal() -> None:
    assert bytes_of("--key-base64", "//4=") == bytes_of("--key-hex", "fffe") == b"\xff\xfe"
    assert bytes_of("--key-hex", None) is None
    for option, text in (("--key-base64", "//4"), ("--key-base64", "*"), ("--key-hex", "fff")):
        with pytest.raises(WrongUsage, match=option):
            bytes_of(option, text)


def test_erasing_names_the_records_one_way_or_another() -> None:
    nothing = CliRunner().invoke(app, ["erase", "orders", "--root", "/nowhere"])
    assert isinstance(nothing.exception, WrongUsage)
    assert "neither --where nor a key" in str(nothing.exception)


@pytest.mark.parametrize("text", ["2026-11-30T01:34:40", "2026-11-30", "2026-11-30 01:34:40"])
def test_a_time_without_a_zone_is_refused_with_the_text_that_is_meant(text: str) -> None:
    with pytest.raises(WrongUsage, match="has no zone") as refused:
        micros_of(text)
    day_or_time = "00:00:00" if len(text) == 10 else "01:34:40"
    assert refused.value.hint.startswith(f"2026-11-30T{day_or_time}Z for UTC")


def test_an_offset_counts() -> None:
    assert micros_of("2026-11-30T03:34:40+02:00") == micros_of("2026-11-30T01:34:40Z")
