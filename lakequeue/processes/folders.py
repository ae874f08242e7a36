"""Folders that nobody else may change: work files, also in a temporary folder that all share."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lakequeue.errors import RootUnusable


def private_folder(path: Path) -> Path:
    """Make the folder with mode 0700, or take it if it is ours and nobody else may write there.

    In a shared temporary folder somebody else may have made one of this name before, or a link.
    Raises `RootUnusable`, and `OSError` of making it.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    others = stat.S_IWGRP | stat.S_IWOTH
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & others:
        raise RootUnusable(
            f"{path} is not a folder of this user alone (owner {found.st_uid}, mode "
            f"{stat.S_IMODE(found.st_mode):04o})",
            hint="remove it, or name another folder with --work-dir",
        )
    return path
