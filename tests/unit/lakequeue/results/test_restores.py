"""Which RESTORE undid a commit, and that each version is asked for once."""

from __future__ import annotations

from lakequeue.results.restores import UNTOLD, Restore, Restores, restored_to, undone_by


def test_both_writers_of_delta_tables_tell_the_version_or_do_not() -> None:
    assert restored_to({"version": "7", "timestamp": None}) == 7
    assert restored_to({"version": 7, "timestamp": None}) == 7
    assert restored_to({"version": None, "timestamp": "2026-01-31"}) == UNTOLD
    assert restored_to({"timestamp": "2026-01-31"}) == UNTOLD
    assert restored_to({"datetime": "1769817600000"}) == UNTOLD


def test_the_newest_restore_above_what_was_committed_undid_it() -> None:
    restores = [Restore(8, 2), Restore(5, 1)]
    assert undone_by(restores, 3, 9) == Restore(8, 2)
    assert undone_by(restores, 3, 7) == Restore(5, 1)
    assert undone_by(restores, 5, 7) is None, "it was committed from the restored table"
    assert undone_by(restores, 8, 9) is None


def test_each_version_is_read_once_unless_an_older_commit_is_asked_about() -> None:
    asked: list[tuple[int, int]] = []

    def read(after: int, upto: int) -> tuple[Restore, ...]:
        asked.append((after, upto))
        return tuple(r for r in (Restore(12, 3), Restore(4, 1)) if after < r.version <= upto)

    restores = Restores()
    assert restores.since(9, 10, read) == ()
    assert restores.since(10, 12, read) == (Restore(12, 3),)
    assert restores.since(11, 12, read) == (Restore(12, 3),)
    assert set(restores.since(2, 13, read)) == {Restore(4, 1), Restore(12, 3)}
    restores.since(9, 14, read)
    assert asked == [(9, 10), (10, 12), (2, 13), (13, 14)]
