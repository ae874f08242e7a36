"""The wheel in an environment of its own, and beside it only what others wrote."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from fnmatch import fnmatch
from pathlib import Path

from tests.support.deployed.bundle import load

PROJECT = Path(__file__).parents[3]


def _quietly(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Installed:
    """Builds the wheel as the Databricks bundle does, and installs it into `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._home = folder / "venv"
        uv = Path(sys.executable).parent / "uv"
        # As the bundle builds it, but for where it goes and what from.
        bundle = load()
        built = folder / "dist"
        program, *build = shlex.split(bundle["artifacts"]["lakequeue"]["build"])
        assert program == "uv"
        build += ["--no-build-isolation", "--offline", "--python", sys.executable, "-o", str(built)]
        _quietly([str(uv), *build, str(PROJECT)])
        (wheel,) = built.glob("*.whl")
        named = [one["whl"] for one in bundle["variables"]["libraries"]["default"] if "whl" in one]
        assert [fnmatch(wheel.name, Path(pattern).name) for pattern in named] == [True]
        _quietly([str(uv), "venv", "--offline", "--python", sys.executable, str(self._home)])
        install = [str(uv), "pip", "install", "--offline", "--no-deps", "--compile-bytecode"]
        _quietly([*install, "--python", self.program("python"), str(wheel)])
        # The packages of others; a path that is named so brings none of the editable ones along.
        (self.site,) = self._home.glob("lib/python*/site-packages")
        (self.site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def program(self, name: str) -> str:
        """Where a program of the environment is."""
        return str(self._home / "bin" / name)

    def __call__(self, program: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program of it in an empty folder."""
        return subprocess.run(
            [self.program(program), *argv],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
