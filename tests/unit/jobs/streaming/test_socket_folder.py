"""Where the sockets of Spark's Python processes lie."""

from __future__ import annotations

from pathlib import Path

from jobs.streaming.session import socket_folder


def test_nobody_else_may_enter_it_and_its_path_is_short(tmp_path: Path) -> None:
    work = tmp_path / ("long" * 40)
    work.mkdir()
    folder = socket_folder(work)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(str(folder / f".{'x' * 36}.sock")) <= 107


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = socket_folder(tmp_path)
    (left / ".one.sock").touch()
    again = socket_folder(tmp_path)
    assert again.is_dir()
    assert not left.exists()
    assert (tmp_path / "sockets").readlink() == again
