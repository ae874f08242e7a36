"""Logging never fails a request."""

from __future__ import annotations

import errno
import io
from typing import TextIO, cast

import structlog

from lakequeue.processes.logs import Unfailing


class Full(io.StringIO):
    """A file on a disk that is full for a while."""

    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_a_full_disk_loses_lines_and_fails_nothing() -> None:
    disk = Full()
    log = structlog.wrap_logger(structlog.PrintLogger(cast(TextIO, Unfailing(disk))))
    log.info("one")
    log.info("two")
    disk.full = False
    log.info("three")
    lines = disk.getvalue().splitlines()
    assert lines[0] == '{"event": "log.lost", "lines": 2}'
    assert "three" in lines[1]
