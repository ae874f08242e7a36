"""The lines that `lakequeue up` offers work in the shell of the folder in which it was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lakequeue.calling.addresses import write_addresses
from lakequeue_cli.commands.up import called, exports

INGEST, CONSUMER = ["http://127.0.0.1:7001"], ["http://127.0.0.1:7002"]
DEFAULT = ["http://127.0.0.1:8080"], ["http://127.0.0.1:8081"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the shell, and no settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("LAKEQUEUE_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_the_default_root_and_the_default_ports_need_nothing(folder: Path) -> None:
    root = folder / "lakequeue-data"
    (root / "_lakequeue").mkdir(parents=True)
    write_addresses(str(root), INGEST, CONSUMER)
    assert exports(str(root), INGEST, CONSUMER) == []
    assert exports("s3://bucket/queue", *DEFAULT) != []
    (root / "_lakequeue" / "addresses.json").unlink()
    assert exports("s3://bucket/queue", *DEFAULT) == []


def test_another_root_is_named(folder: Path) -> None:
    assert exports(f"{folder}/my queue", INGEST, CONSUMER) == [
        f"export LAKEQUEUE_ROOT='{folder}/my queue'"
    ]


def test_an_object_store_has_its_addresses_named() -> None:
    assert exports("s3://bucket/queue", INGEST, CONSUMER) == [
        "export LAKEQUEUE_INGEST__URL=http://127.0.0.1:7001",
        "export LAKEQUEUE_CONSUMER__URL=http://127.0.0.1:7002",
    ]


def test_a_shell_whose_own_root_has_no_running_queue_is_told_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ROOT", str(folder / "stopped"))
    assert exports(f"{folder}/new", *DEFAULT) == [f"export LAKEQUEUE_ROOT={folder}/new"]


def test_the_command_is_spelled_as_this_shell_finds_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = folder / "my venv" / "bin"
    programs.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert called() == "lakequeue", "there is none beside this Python"
    (programs / "lakequeue").touch(mode=0o755)
    assert called() == "'my venv/bin/lakequeue'"
    monkeypatch.chdir(programs)
    monkeypatch.setenv("PATH", str(programs))
    assert called() == "lakequeue"
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir("/")
    assert called() == f"'{str(programs / 'lakequeue').removeprefix('/')}'"
