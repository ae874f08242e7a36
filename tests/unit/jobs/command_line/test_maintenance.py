"""What the maintenance jobs share."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from jobs.command_line.maintenance import Report, main_of, parser_of, run_parts
from jobs.command_line.options import Exit
from lakequeue.errors import CorruptTable
from queue_tables.root import QueueRoot


def torn() -> Report:
    raise CorruptTable("data file x cannot be read", hint="restore it")


def test_what_is_wrong_with_one_part_keeps_nobody_from_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = QueueRoot.open(str(tmp_path / "queue")).uri

    def run(_root: QueueRoot, _args: argparse.Namespace, _now: int) -> Report:
        return run_parts({"log": torn, "rejects": lambda: {"files": 1}})

    code = main_of(parser_of("jobs.x", "…"), run, ["--root", root, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == Exit.FAILED
    assert report["rejects"] == {"files": 1}
    assert "cannot be read" in report["log"]["failed"]
