"""What a release makes of the format of a root: what it opens, refuses, and says."""

from __future__ import annotations

import pytest

from lakequeue.errors import NewerFormat, OlderFormat
from queue_tables.schema.formats import (
    NEWEST,
    NUMBER,
    OLDEST,
    RootFormat,
    advice_of,
    format_in,
    raised,
    refusal_of,
)


def test_every_format_from_the_oldest_to_the_newest_is_used_as_it_is() -> None:
    for number in range(OLDEST, NUMBER + 1):
        assert refusal_of("q", RootFormat(number)) is None
    assert refusal_of("q", NEWEST) is None


def test_a_newer_number_is_refused_with_the_release_that_reads_it() -> None:
    refusal = refusal_of("q", RootFormat(NUMBER + 1, release="0.9.0"))
    assert isinstance(refusal, NewerFormat)
    assert str(refusal) == (
        f"q is of format {NUMBER + 1}, this release knows up to {NUMBER};"
        " install lakequeue 0.9.0 or later here"
    )
    silent = refusal_of("q", RootFormat(NUMBER + 1))
    assert silent is not None
    assert silent.hint == "upgrade lakequeue"


def test_an_unknown_feature_is_refused_by_name_with_the_release_that_knows_all() -> None:
    found = RootFormat(2, {"known": "0.2.0", "later": "0.10.0", "new": "0.9.0"})
    refusal = refusal_of("q", found, newest=2, known=["known"])
    assert isinstance(refusal, NewerFormat)
    assert "has the features later, new, which this release does not know" in refusal.detail
    assert "lakequeue 0.10.0 or later" in refusal.hint
    assert refusal_of("q", found, newest=2, known=["known", "later", "new"]) is None


def test_a_root_that_is_too_old_is_refused_with_the_release_that_raises_it() -> None:
    refusal = refusal_of("s3://b/q", RootFormat(1), oldest=2)
    assert isinstance(refusal, OlderFormat)
    assert "lakequeue upgrade --apply --root s3://b/q" in refusal.hint


def test_raising_takes_nothing_away_and_is_done_once() -> None:
    newest = RootFormat(3, {"a": "0.2.0", "b": "0.3.0"}, "0.3.0")
    once = raised(RootFormat(2, {"a": "0.2.0", "other": "0.2.5"}, "0.2.0"), newest)
    assert once.number == 3
    assert set(once.features) == {"a", "b", "other"}
    assert raised(once, newest) == once
    later = RootFormat(4, {}, "0.4.0")
    assert raised(later, newest) == later


def test_it_is_read_as_it_was_written() -> None:
    for one in (RootFormat(1), NEWEST, RootFormat(3, {"x": "1.0.0"}, "1.0.0")):
        assert format_in(one.document() | {"queue_id": "q", "what": "else"}) == one


@pytest.mark.parametrize(
    "said", [{}, {"format": None}, {"format": "two"}, {"format": 2, "features": ["a"]}]
)
def test_what_is_no_format_is_none(said: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        format_in(said)


def test_whoever_starts_is_told_the_command_and_only_if_there_is_something_to_do() -> None:
    assert advice_of("q", NEWEST) is None
    said = advice_of("/data/q", RootFormat(1))
    assert said is not None
    assert "`lakequeue upgrade --check --root /data/q`" in said
    assert advice_of("q", RootFormat(NUMBER, {}), RootFormat(NUMBER, {"new": "0.3.0"})) is not None
