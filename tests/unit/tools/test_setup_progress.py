"""What `make setup` says while it installs: `far` of tools/setup, which `told` calls."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SETUP = Path(__file__).parents[3] / "tools" / "setup"
LOCKED = 3
FUNCTIONS = r"^(?:say|megabytes|far)\(\) \{(?:.*\}(?: #.*)?$|[\s\S]*?^\})"


def said(folder: Path, cache: str, cached: int) -> str:
    functions = [found[0] for found in re.finditer(FUNCTIONS, SETUP.read_text(), re.MULTILINE)]
    assert len(functions) == 3
    script = "\n".join(
        [
            "set -euo pipefail",
            *functions,
            f"cache={cache!r} cached={cached} locked={LOCKED}",
            "far packages 25",
        ]
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr == ""
    return done.stdout


def environment(folder: Path, *packages: str) -> None:
    for package in packages:
        (folder / ".venv/lib/python3.11/site-packages" / f"{package}.dist-info").mkdir(parents=True)


def downloaded(folder: Path, cache: Path, cached: int) -> int:
    found = re.search(
        r": 25 s, (\d+) MB fetched and unpacked; .venv has 1 packages, ",
        said(folder, str(cache), cached),
    )
    assert found is not None
    return int(found[1])


def test_what_is_downloaded_is_told_while_nothing_is_installed(tmp_path: Path) -> None:
    environment(tmp_path, "uv-1")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "wheel").write_bytes(b"x" * (5 << 20))
    first = downloaded(tmp_path, cache, 0)
    assert first in {5, 6}, "whole megabytes, rounded up"
    (cache / "more").write_bytes(b"x" * (3 << 20))
    assert downloaded(tmp_path, cache, 0) == first + 3
    assert downloaded(tmp_path, cache, first) == 3, "what was there before is not ours"


def test_without_a_cache_nothing_is_said_of_it(tmp_path: Path) -> None:
    environment(tmp_path, "pip-1", "uv-1")
    assert said(tmp_path, "", 0).startswith("setup:   packages: 25 s; .venv has 2 packages, ")


def test_that_all_are_there_is_said(tmp_path: Path) -> None:
    environment(tmp_path, "a-1", "b-1", "c-1")
    assert ".venv has all packages, compiling them, " in said(tmp_path, "", 0)
