"""Folders of this machine."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lakequeue.errors import RootUnusable
from lakequeue.processes.folders import local_root, nearest_existing, private_folder


def test_a_folder_and_a_file_uri_are_local_and_a_bucket_is_not(tmp_path: Path) -> None:
    assert local_root(str(tmp_path)) == tmp_path
    assert local_root(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert local_root("s3://bucket/queue") is None
    assert local_root("abfss://c@account/queue") is None


def test_a_place_that_is_not_made_yet_is_measured_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert nearest_existing(tmp_path) == tmp_path
    assert nearest_existing(tmp_path / "not" / "made") == tmp_path
    assert nearest_existing(Path("not") / "made") == tmp_path


def test_a_folder_is_made_for_its_owner_alone_and_taken_again(tmp_path: Path) -> None:
    for _ in range(2):
        made = private_folder(tmp_path / "work")
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(mode)
    with pytest.raises(RootUnusable, match="this user alone"):
        private_folder(tmp_path / "work")


def test_a_link_that_somebody_has_put_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    (tmp_path / "work").symlink_to(tmp_path / "theirs")
    with pytest.raises(RootUnusable, match="this user alone"):
        private_folder(tmp_path / "work")
