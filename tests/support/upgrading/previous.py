"""The release before this one, in an environment of its own: its wheel, built from its commit.

What it needs of others is what this one is tested with (extra `dev` has what only it needs).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[3]
_LIGHT_DRIVER = "tests/support/light_driver.py"


def _declared() -> dict[str, str]:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return dict(declared["tool"]["lakequeue"]["previous"])


def _run(*command: str, cwd: Path | None = None, data: bytes | None = None) -> bytes:
    done = subprocess.run(command, cwd=cwd, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class PreviousRelease:
    """Builds and installs it into `folder`."""

    def __init__(self, folder: Path) -> None:
        declared = _declared()
        self.release = declared["release"]
        self.folder = folder
        source, home = folder / "source", folder / "venv"
        source.mkdir(parents=True)
        # The commit, not the tag: a clone may have been made without tags.
        commit = declared["commit"]
        packed = _run("git", "archive", commit, cwd=PROJECT)
        _run("tar", "-x", "-C", str(source), data=packed)
        uv = str(Path(sys.executable).parent / "uv")
        offline = ("--offline", "--python", sys.executable)
        built = folder / "dist"
        _run(
            uv, "build", "--wheel", "--no-build-isolation", *offline, "-o", str(built), str(source)
        )
        (wheel,) = built.glob("*.whl")
        _run(uv, "venv", *offline, str(home))
        self.python = str(home / "bin" / "python")
        self.program = str(home / "bin" / "lakequeue")
        install = ("--offline", "--no-deps", "--compile-bytecode", "--python", self.python)
        _run(uv, "pip", "install", *install, str(wheel))
        (site,) = home.glob("lib/python*/site-packages")
        # The packages of others; a path that is named so brings none of the editable ones along.
        (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.light_driver = folder / "light_driver.py"
        """Its drivers' jobs without Spark, to be run as a script."""
        self.light_driver.write_bytes((source / _LIGHT_DRIVER).read_bytes())
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }

    def __call__(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run its command line."""
        return self._ended(self.program, *command, **environment)

    @contextmanager
    def ingest(self, root: Path) -> Iterator[str]:
        """Its ingest node on a root, without ZooKeeper: the base URL."""
        command = [self.python, "-m", "ingest", "--root", str(root), "--port", "0"]
        node = subprocess.Popen(
            [*command, "--node", "old", "--die-with-parent"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert node.stdout is not None
        try:
            event = json.loads(node.stdout.readline())
            assert "url" in event, event
            yield str(event["url"])
        finally:
            node.terminate()
            node.communicate(timeout=60)

    def script(self, text: str, *argv: str) -> str:
        """Run a script with its packages; what it prints."""
        done = self._ended(self.python, "-c", text, *argv)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _ended(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
