"""What is checked before a child starts."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from lakequeue.errors import AlreadyRunning, PortInUse, RootUnusable
from lakequeue_cli.supervisor.preflight import (
    RootLock,
    await_free_port,
    default_work_dir,
    free_port,
    make_work_dir,
    take_over_coordination,
    zookeeper_password,
)


def test_work_is_kept_inside_a_local_root_and_apart_for_each_bucket(tmp_path: Path) -> None:
    assert default_work_dir(str(tmp_path)) == tmp_path / "_work"
    assert default_work_dir("s3://a/q") != default_work_dir("s3://b/q")


def test_a_root_that_the_work_folder_makes_is_its_owners_alone(tmp_path: Path) -> None:
    make_work_dir(tmp_path / "queues" / "q" / "_work")
    for folder in ("queues", "queues/q", "queues/q/_work", "queues/q/_work/logs"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    # One that is there already is left to whoever made it.
    opened = tmp_path / "opened"
    opened.mkdir(mode=0o750)
    make_work_dir(opened / "_work")
    assert stat.S_IMODE(opened.stat().st_mode) == 0o750


def test_a_root_below_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RootUnusable, match=r"cannot be written: .*choose another folder"):
        make_work_dir(tmp_path / "file" / "_work")


def test_a_second_supervisor_is_told_who_holds_the_root(tmp_path: Path) -> None:
    with RootLock(tmp_path), pytest.raises(AlreadyRunning, match=r"pid \d+ holds"):
        RootLock(tmp_path).__enter__()
    with RootLock(tmp_path):
        pass


def test_a_port_in_use_is_named_with_the_option_to_change() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} .*another --ingest-port"):
            await_free_port("127.0.0.1", port, "--ingest-port", wait_s=0.1)
    await_free_port("127.0.0.1", port, "--ingest-port", wait_s=0.1)


def test_a_free_port_can_be_listened_on() -> None:
    await_free_port("127.0.0.1", free_port(), "--ingest-port", wait_s=0.0)


def test_what_zookeeper_keeps_goes_along_when_the_number_of_servers_changes(
    tmp_path: Path,
) -> None:
    def wrote(name: str, at: float) -> Path:
        file = tmp_path / name / "data" / "version-2" / "log.1"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name} {at}")
        os.utime(file, (at, at))
        return file

    three = [f"zookeeper-{n}" for n in (1, 2, 3)]
    take_over_coordination(tmp_path, three)
    assert list(tmp_path.iterdir()) == []
    wrote("zookeeper", 10.0)
    take_over_coordination(tmp_path, three)
    for name in three:
        assert (tmp_path / name / "data" / "version-2" / "log.1").read_text() == "zookeeper 10.0"
    # Killed in the middle: some have it, the last ones do not.
    for killed_before in three:
        shutil.rmtree(tmp_path / killed_before)
        take_over_coordination(tmp_path, three)
        copied = tmp_path / killed_before / "data" / "version-2" / "log.1"
        assert copied.read_text() == "zookeeper 10.0"
    newer = wrote("zookeeper-2", 20.0)
    take_over_coordination(tmp_path, three)
    assert newer.read_text() == "zookeeper-2 20.0"
    take_over_coordination(tmp_path, ["zookeeper"])
    back = tmp_path / "zookeeper" / "data" / "version-2" / "log.1"
    assert back.read_text() == "zookeeper-2 20.0"


def test_a_password_for_zookeeper_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    made = zookeeper_password(tmp_path)
    text = made.read_text()
    assert len(text.strip()) >= 40
    assert made.stat().st_mode & 0o777 == 0o600
    assert zookeeper_password(tmp_path).read_text() == text
    assert list(tmp_path.iterdir()) == [made]
    other = tmp_path / "other"
    other.mkdir()
    assert zookeeper_password(other).read_text() != text
