"""Folders of this machine: a local root, what exists above a place, and private work folders."""

from __future__ import annotations

import os
import stat
import urllib.parse
from pathlib import Path

from lakequeue.errors import RootUnusable


def local_root(root: str) -> Path | None:
    """The folder that a root names; None if it is on an object store."""
    parts = urllib.parse.urlsplit(root)
    if parts.scheme == "file":
        return Path(urllib.parse.unquote(parts.path)).resolve()
    # One letter before a colon is a drive, not a scheme.
    return None if len(parts.scheme) > 1 and "://" in root else Path(root).expanduser().resolve()


def nearest_existing(place: Path) -> Path:
    """The place itself, or the first one above it that exists."""
    return next(one for one in (place, *place.absolute().parents) if one.exists())


def make_private(path: Path) -> None:
    """Make a folder, and those above it that are missing, with mode 0700. Raises `OSError`.

    `mkdir(parents=True)` makes those above with the usual mode: a local root would be one of them.
    """
    missing = [one for one in (path, *path.absolute().parents) if not one.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)


def private_folder(path: Path) -> Path:
    """Make the folder with mode 0700, or take it if it is ours and nobody else may write there.

    In a shared temporary folder somebody else may have made one of this name before, or a link.
    Raises `RootUnusable`, and `OSError` of making it.
    """
    make_private(path)
    found = path.lstat()
    others = stat.S_IWGRP | stat.S_IWOTH
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & others:
        raise RootUnusable(
            f"{path} is not a folder of this user alone (owner {found.st_uid}, mode "
            f"{stat.S_IMODE(found.st_mode):04o})",
            hint="remove it, or name another folder with --work-dir",
        )
    return path
