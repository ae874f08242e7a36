"""How every service and job logs: one JSON line an event, to standard error."""

from __future__ import annotations

import io
import logging
import sys
from typing import TextIO, cast

import structlog


class Unfailing(io.TextIOBase):
    """A stream on which a line may be lost, and nothing fails for it.

    Whoever logs does so in the middle of a commit: on a full disk, or after the reader of a pipe
    has gone, a line that cannot be written must not become an answer that says "broken".
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self.lost = 0
        """Lines that could not be written; told once writing works again."""

    def write(self, text: str) -> int:
        """Write, or count as lost."""
        try:
            if self.lost:
                self._stream.write(f'{{"event": "log.lost", "lines": {self.lost}}}\n')
                self._stream.flush()
                self.lost = 0
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += text.count("\n")
        return len(text)

    def flush(self) -> None:
        """Each write has done it."""


def log_to_stderr(level: str) -> None:
    """Configure this process; `level` is debug, info, warning or error, else info."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(
            getattr(logging, level.upper(), logging.INFO)
        ),
        # Not what stands in for it at the moment, which may be closed while this still logs.
        logger_factory=structlog.PrintLoggerFactory(
            cast(TextIO, Unfailing(sys.__stderr__ or sys.stderr))
        ),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
    )
