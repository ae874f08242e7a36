"""A process as a container with a read-only root runs it: it can write to its volumes alone.

A mount namespace of its own, in which everything is mounted read-only but three folders: the queue
(for the object store), the work folder and `/tmp`. What the kernel offers stays: /dev, /proc.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[3]
_SHELL = """
set -eu
folder=$1; shift
mount --make-rprivate /
for place in queue work; do mount --bind "$folder/$place" "$folder/$place"; done
case $PYTHONPATH in
  /tmp/*)  # a working copy that its own /tmp would hide
    kept="$folder/tmp/${PYTHONPATH#/tmp/}"
    mkdir -p "$kept"
    mount --bind "$PYTHONPATH" "$kept"
    ;;
esac
mount --rbind "$folder/tmp" /tmp
for place in $(cut -d ' ' -f 5 /proc/self/mountinfo | sort -u); do
  case $place in
    /proc*|/sys*|/dev*|/tmp|"$folder"/*) ;;
    *) mount -o remount,bind,ro "$place" 2>/dev/null || true ;;
  esac
done
for place in / /usr /var/tmp "$HOME" "$PYTHONPATH" "$folder"; do
  if touch "$place/.written" 2>/dev/null; then echo "$place can be written" >&2; exit 90; fi
done
cd "$folder/work"
exec "$@"
"""


class Shut:
    """Runs processes so. `folder` must not be below `/tmp`, which they have for themselves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("queue", "work", "tmp", "logs"):
            (folder / name).mkdir()

    @contextmanager
    def running(self, module: str, *arguments: str, tells: bool = True) -> Iterator[dict[str, Any]]:
        """`python -m module` until the end of the block; what it tells first on its output."""
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        command = [
            *("unshare", "--mount", *user, "sh", "-c", _SHELL, "sh", str(self.folder)),
            *(sys.executable, "-m", module, "--root", str(self.folder / "queue"), *arguments),
        ]
        kept = {name: v for name, v in os.environ.items() if not name.startswith("LAKEQUEUE_")}
        work = {"LAKEQUEUE_WORK_DIR": str(self.folder / "work"), "PYTHONPATH": str(PROJECT)}
        with (self.folder / "logs" / f"{module}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE if tells else log,
                stderr=log,
                text=True,
                env=kept | work,
            )
        try:
            if process.stdout is None:
                yield {}
            else:
                line = process.stdout.readline()
                assert line, self.said(module)
                yield dict(json.loads(line))
        finally:
            process.terminate()
            process.communicate(timeout=120)
        assert process.returncode == 0, self.said(module)

    def said(self, module: str) -> str:
        """The end of a process' log."""
        return (self.folder / "logs" / f"{module}.log").read_text()[-3000:]
