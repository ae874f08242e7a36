"""The unit of systemd: runs what the command line knows, and lets a process end in peace."""

from __future__ import annotations

import shlex
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from lakequeue.settings import meanings, variable

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "lakequeue@.service"
READ = ConfigParser(interpolation=None, strict=True, delimiters=("=",))
READ.optionxform = str  # type: ignore[assignment,method-assign]
READ.read_string(UNIT.read_text())


@pytest.mark.parametrize("role", ["ingest", "consumer", "driver", "zookeeper", "console"])
def test_it_starts_a_role_of_the_command_line(role: str) -> None:
    command = shlex.split(READ["Service"]["ExecStart"].replace("%i", role))
    assert Path(command[0]).name == "lakequeue"
    run = [sys.executable, "-m", "lakequeue_cli.app", *command[1:]]
    config = run.index("--config")
    del run[config : config + 2]
    done = subprocess.run(
        [*run, "--", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "--die-with-parent" in done.stdout or "--data-dir" in done.stdout
    assert "--config" in command


def test_its_variables_are_settings() -> None:
    given = [pair.partition("=") for pair in shlex.split(READ["Service"]["Environment"])]
    known = {variable(name) for name in meanings()} | {"XDG_CACHE_HOME"}
    assert {name for name, _, _ in given} <= known
    written = ("/var/lib/lakequeue/", "/var/cache/lakequeue")
    assert all(value.startswith(written) for _, _, value in given)


def test_a_process_has_time_to_end_and_is_always_started_again() -> None:
    service = READ["Service"]
    assert (service["KillMode"], service["Restart"]) == ("mixed", "always")
    assert int(service["TimeoutStopSec"]) >= 90
    assert READ["Unit"]["StartLimitIntervalSec"] == "0"
    assert int(service["LimitNOFILE"]) >= 65_536
    assert service["UMask"] == "0077"
    assert "MemoryDenyWriteExecute" not in service, "Java compiles as it runs"
