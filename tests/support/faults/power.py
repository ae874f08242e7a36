"""Power loss: everybody dies at once, and what was not synced is gone, or is there in part.

A process started with `patching.environ("power", …)` notes whatever it syncs, and each folder that
it makes, in a file of its own in the folder that `NOTES` names. `PowerCut.cut` then does to the
root what the power may do to a disk: a name is lost unless its folder was synced after it came
about, a file is cut off somewhere unless it was synced after it was last written. By anybody: one
kernel keeps the files of all. What was removed stays removed.

Whoever writes without `os.fsync` (delta-rs) has not synced, however long ago that is.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.faults.patching import Patch

NOTES = "QUEUE_TEST_POWER_NOTES"
_LOST_SHARE = 0.8
"""Of the names that may be lost; any of them may also have come to the disk by itself."""


def _note_syncs(_store: ModuleType) -> None:
    folder = Path(os.environ[NOTES])
    folder.mkdir(parents=True, exist_ok=True)
    fsync, mkdir = os.fsync, os.mkdir
    pid, fd = -1, -1

    def note(**said: Any) -> None:
        nonlocal pid, fd
        if pid != os.getpid():
            pid = os.getpid()
            # A process that was forked has a file of its own.
            fd = os.open(folder / f"{pid}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(fd, (json.dumps(said) + "\n").encode())

    def noted_fsync(file: int) -> None:
        at = time.time_ns()
        fsync(file)
        known = os.fstat(file)
        note(synced=[known.st_dev, known.st_ino], at=at)

    def noted_mkdir(path: Any, *args: Any, **options: Any) -> None:
        at = time.time_ns()
        mkdir(path, *args, **options)
        note(made=os.path.abspath(path), at=at)  # noqa: PTH100 -- without following links

    vars(os)["fsync"] = noted_fsync
    vars(os)["mkdir"] = noted_mkdir


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "power": [("queue_tables.delta.store", _note_syncs)]
}


class PowerCut:
    """Of one root. What is there when this is made is durable; so is what a cut has left."""

    def __init__(self, root: Path, notes: Path, leave: Path) -> None:
        """`leave`: a folder below the root that is none of the queue's tables."""
        self._root = root
        self._notes = notes
        self._leave = leave
        self._since = time.time_ns()

    def cut(self, rng: random.Random) -> list[str]:
        """Take what may be lost; what was taken. Nobody may be alive who writes to the root."""
        synced: dict[tuple[int, int], int] = defaultdict(int)
        made: dict[Path, int] = {}
        for e in self._noted():
            if "made" in e:
                made[Path(e["made"])] = e["at"]
            else:
                device, inode = e["synced"]
                synced[device, inode] = max(synced[device, inode], e["at"])
        taken = list(self._cut_folder(self._root, synced, made, rng))
        shutil.rmtree(self._notes, ignore_errors=True)
        self._notes.mkdir()
        self._since = time.time_ns()
        return taken

    def _noted(self) -> Iterator[dict[str, Any]]:
        for file in self._notes.glob("*.jsonl"):
            for line in file.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def _cut_folder(
        self,
        folder: Path,
        synced: dict[tuple[int, int], int],
        made: dict[Path, int],
        rng: random.Random,
    ) -> Iterator[str]:
        names_durable = _newest_sync(folder, synced)
        for path in sorted(folder.iterdir()):
            if path == self._leave or path.name.endswith(".tmp"):
                continue
            known = path.stat()
            born = made.get(path, 0) if path.is_dir() else known.st_ctime_ns
            lost = self._since < born > names_durable and rng.random() < _LOST_SHARE
            said = str(path.relative_to(self._root))
            if lost and path.is_dir():
                shutil.rmtree(path)
                yield f"{said}/"
            elif lost:
                path.unlink()
                yield said
            elif path.is_dir():
                yield from self._cut_folder(path, synced, made, rng)
            elif self._since < known.st_mtime_ns > _newest_sync(path, synced):
                size = rng.randrange(known.st_size) if known.st_size else 0
                os.truncate(path, size)
                yield f"{said} from byte {size}"


def _newest_sync(path: Path, synced: dict[tuple[int, int], int]) -> int:
    """When the newest sync began that it is surely in."""
    known = path.stat()
    return synced.get((known.st_dev, known.st_ino), 0)
