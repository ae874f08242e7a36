"""The doctor's looks at this machine: findings with what mends them, nothing changed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lakequeue.settings import Settings
from lakequeue_cli.supervisor.health import Finding, Level, examine
from lakequeue_cli.supervisor.preflight import free_port
from queue_tables.root import QueueRoot


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lakequeue.toml of the checkout, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def look(root: Path, ingest_port: int = 0) -> dict[str, list[Finding]]:
    findings = examine(Settings(root=str(root)), ingest_port or free_port(), free_port())
    named: dict[str, list[Finding]] = {}
    for finding in findings:
        named.setdefault(finding.name, []).append(finding)
    return named


def test_a_root_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    storage = look(tmp_path / "queue")["storage"]
    assert (storage[0].level, storage[0].fix) == (
        Level.WARN,
        f"lakequeue up --root {tmp_path / 'queue'}",
    )
    assert not (tmp_path / "queue").exists()
    assert list(tmp_path.glob(".lakequeue-doctor-*")) == []


def test_an_existing_queue_is_opened_and_named(tmp_path: Path) -> None:
    queue = QueueRoot.open(str(tmp_path / "queue"))
    storage = look(tmp_path / "queue")["storage"]
    assert {finding.level for finding in storage} == {Level.OK}
    assert queue.queue_id in storage[0].detail


def test_a_root_of_a_newer_format_fails_with_the_remedy(tmp_path: Path) -> None:
    QueueRoot.open(str(tmp_path / "queue"))
    (tmp_path / "queue/_lakequeue/format.json").write_text('{"format": 99, "queue_id": "x"}')
    finding = look(tmp_path / "queue")["storage"][0]
    assert finding.level is Level.FAIL
    assert "format 99" in finding.detail
    assert "upgrade" in finding.fix


def test_a_file_in_place_of_the_root_is_called_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = look(tmp_path / "file" / "queue")["storage"][0]
    assert finding.level is Level.FAIL
    assert f"{tmp_path / 'file'} is a file" in finding.detail
    assert "chown" not in finding.fix


def test_jars_that_are_not_there_are_a_warning_with_the_command(tmp_path: Path) -> None:
    finding = look(tmp_path)["jars"][0]
    assert finding.level is Level.WARN
    assert finding.fix.endswith("-m jobs.jars")


def test_a_port_of_another_program_fails_and_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        ports = look(tmp_path, ingest_port=port)["ports"]
    assert ports[0].level is Level.FAIL
    assert f"sport = :{port}" in ports[0].fix
    assert ports[1].level is Level.OK


def test_a_root_below_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = look(tmp_path / "file/queue")["storage"][0]
    assert finding.level is Level.FAIL
    assert "choose another --root" in finding.fix
