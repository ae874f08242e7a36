"""Spans of this process, kept in memory while a test lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class KeptSpans:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self) -> list[ReadableSpan]:
        """In the order of their ends."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of that name."""
        return [span for span in self.all() if span.name == name]

    def clear(self) -> None:
        """Forget them."""
        self._exporter.clear()


@contextmanager
def kept_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptSpans]:
    """Trace this process, and no longer than the block lasts."""
    kept = KeptSpans()
    with monkeypatch.context() as patched:
        # OpenTelemetry lets a process choose once; tests of one process are many.
        patched.setattr(trace, "_TRACER_PROVIDER", kept.provider)
        yield kept
    kept.provider.shutdown()
