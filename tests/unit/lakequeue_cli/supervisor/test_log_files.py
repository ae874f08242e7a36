"""Logs are bounded while their processes write on."""

from __future__ import annotations

from pathlib import Path

from lakequeue_cli.supervisor.log_files import bound_log


def test_a_log_that_is_too_large_begins_anew_under_the_one_who_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "ingest.log"
    with path.open("ab", buffering=0) as log:
        for n in range(5):
            log.write(b"%d\n" % n)
            bound_log(path, most_bytes=3)
        assert path.read_bytes() == b"4\n"
        assert path.with_name("ingest.log.1").read_bytes() == b"2\n3\n"


def test_a_log_that_is_not_there_is_nobodys_trouble(tmp_path: Path) -> None:
    bound_log(tmp_path / "none.log")
