"""How every service and job logs: one JSON line an event, to standard error."""

from __future__ import annotations

import logging
import sys

import structlog


def log_to_stderr(level: str) -> None:
    """Configure this process; `level` is debug, info, warning or error, else info."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(
            getattr(logging, level.upper(), logging.INFO)
        ),
        # Not what stands in for it at the moment, which may be closed while this still logs.
        logger_factory=structlog.PrintLoggerFactory(sys.__stderr__ or sys.stderr),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
    )
