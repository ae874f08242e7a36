"""The command `lakequeue support-dump`."""

from __future__ import annotations

import os
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from lakequeue.errors import WrongUsage
from lakequeue.settings import Settings
from lakequeue_cli.commands.config import leaves
from lakequeue_cli.support.dump import parts


def support_dump(
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; default: lakequeue-support-<time>.zip in this folder."),
    ] = None,
    root: Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")] = None,
) -> None:
    """Collect what somebody else needs to find a fault, in one zip file.

    It has versions, settings (secrets masked), what `doctor` finds, health and metrics of the
    nodes, topics, groups with their owners and lag, the newest commits of each table, and logs. It
    has no key, value or header of any record. It has names of topics, groups and machines: look
    through it before you give it away.
    """
    settings = Settings() if root is None else Settings(root=root)
    file = out or Path(f"lakequeue-support-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.zip")
    shown = {name: str(value) for name, value in leaves(settings)}
    try:
        handle = os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise WrongUsage(
            f"{file} cannot be written: {error.strerror}", hint="name another file with --out"
        ) from error
    with handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts(settings, shown):
            archive.writestr(name, text)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r\033[K{name[:70]}")
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    print(file)
