"""How far a real table goes that delta-rs writes, through every kind of `RESTORE`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pytest
from deltalake.exceptions import CommitFailedError

from lakequeue.errors import InvalidRequest
from tests.support.data.results import Result


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """An empty one."""
    return Result(tmp_path)


def test_the_mark_is_what_is_in_the_table_after_restores_of_restores(result: Result) -> None:
    assert result.done("a") is None
    one = result.write("a", 1)
    two = result.write("a", 2)
    three = result.write("b", 30)
    result.write("a", 4)
    assert (result.done("a"), result.done("b")) == (4, 30)
    result.restore(two)
    assert (result.done("a"), result.done("b")) == (2, 0), "of b the table has nothing"
    assert result.done("c") is None
    after = result.write("a", 3)
    assert (result.done("a"), result.done("b")) == (3, 0)
    result.restore(three)
    assert (result.done("a"), result.done("b")) == (2, 30)
    result.restore(after)
    assert (result.done("a"), result.done("b")) == (3, 0), "as it was then, restored from four"
    result.restore(one)
    assert (result.done("a"), result.done("b")) == (1, 0)
    result.write("a", 2)
    assert result.done("a") == 2


def test_nobody_commits_on_top_of_a_restore_who_has_looked_before_it(result: Result) -> None:
    one = result.write("a", 1)
    result.write("a", 2)
    stale = deltalake.DeltaTable(result.uri)
    result.restore(one)
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        result.write("a", 3, stale)
    assert result.done("a") == 1


def test_a_checkpoint_and_commits_of_others_hide_no_restore(result: Result) -> None:
    one = result.write("a", 1)
    result.write("a", 2)
    result.restore(one)
    for n in range(40):
        result.write("b", n)
    deltalake.DeltaTable(result.uri).create_checkpoint()
    assert (result.done("a"), result.done("b")) == (1, 39)


def test_a_restore_to_a_time_is_refused_until_one_to_a_version_follows(result: Result) -> None:
    one = result.write("a", 1)
    created = Path(result.uri, "_delta_log", f"{one:020}.json").stat().st_mtime
    result.write("a", 2)
    # delta-rs counts milliseconds, and takes the newest version that is not later.
    result.restore(datetime.fromtimestamp(created, UTC))
    with pytest.raises(InvalidRequest, match="version 3 restored the result table to a time"):
        result.done("a")
    result.restore(one)
    assert result.done("a") == 1


def test_a_restore_to_what_the_log_does_not_tell_of_any_more_is_an_error(result: Result) -> None:
    one = result.write("a", 1)
    result.write("a", 2)
    result.restore(one)
    deltalake.DeltaTable(result.uri).create_checkpoint()
    for version in range(3):
        Path(result.uri, "_delta_log", f"{version:020}.json").unlink()
    with pytest.raises(InvalidRequest, match="does not tell of any more"):
        result.done("a")
