"""Spans of what a program does with records, by OpenTelemetry's conventions for messaging.

A program that traces has imported OpenTelemetry. Where it has not, all that is done here is to find
that out, which is one look into a dictionary. Spans have names of topics and groups, counts and
codes of errors: never a key or a value, nor the words of an error, in which one could stand.

One request or batch brings records of many traces. So its span is linked with the spans that the
records came from, of which it names `MOST_LINKS` at most.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from lakequeue.errors import LakequeueError
from lakequeue.tracing.context import TraceContext, context_of

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, Tracer, TracerProvider

MOST_LINKS: Final = 128
"""As many as OpenTelemetry's own limit for a span allows."""
SYSTEM: Final = "lakequeue"
Attributes = Mapping[str, str | int]
Kind = Literal["PRODUCER", "CLIENT", "CONSUMER", "SERVER", "INTERNAL"]
API: Final = "opentelemetry.trace"
"""What a program that traces has imported."""
_known: tuple[Any, Any] = (None, None)
"""The provider that was asked last, and the tracer that it gave."""


def tracer() -> Tracer | None:
    """What makes spans; None: nobody traces."""
    api: Any = sys.modules.get(API)
    if api is None:
        return None
    return _tracer_of(api, api.get_tracer_provider())


def _tracer_of(api: Any, provider: TracerProvider) -> Tracer | None:
    global _known
    if provider is _known[0]:
        found: Tracer | None = _known[1]
        return found
    found = None
    if not isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        made = provider.get_tracer(SYSTEM)
        found = None if isinstance(made, api.NoOpTracer) else made
    _known = (provider, found)
    return found


def current() -> TraceContext | None:
    """The context that the program is in, as records that it sends now should carry it."""
    api: Any = sys.modules.get(API)
    return None if api is None else _context_of(api.get_current_span().get_span_context())


class Tracing:
    """A span that is under way, or none: whoever does the work need not know."""

    __slots__ = ("_span",)

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def request_headers(self) -> Mapping[str, str]:
        """What an HTTP request says that is a part of it."""
        context = None if self._span is None else _context_of(self._span.get_span_context())
        return {} if context is None else context.of_request()

    def failed(self, code: str) -> None:
        """It came to an end that is none, and no error was raised."""
        if self._span is not None:
            _mark_failed(self._span, code)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._span is None:
            return
        if error is not None and not isinstance(error, GeneratorExit):
            _failed(self._span, error)
        self._span.end()


NOTHING: Final = Tracing()


def span(
    name: str,
    about: str | None,
    kind: Kind,
    *,
    type_: str | None = None,
    parent: TraceContext | None = None,
    links: Iterable[TraceContext | None] = (),
    attributes: Attributes | None = None,
) -> Tracing:
    """Begin a span, to be used in a `with`. `name`: the operation. `about`: topic, if it is one.

    It is a part of `parent`, or else of whatever the program is in.
    """
    made = tracer()
    if made is None:
        return NOTHING
    return Tracing(_begin(made, name, about, kind, type_, parent, links, attributes, None))


def passed(
    name: str,
    about: str | None,
    kind: Kind,
    seconds: float,
    *,
    type_: str | None = None,
    parent: TraceContext | None = None,
    links: Iterable[TraceContext | None] = (),
    attributes: Attributes | None = None,
    error: BaseException | None = None,
) -> None:
    """The same for what is over, and took so many seconds."""
    made = tracer()
    if made is None:
        return
    end = time.time_ns()
    begun = _begin(
        made, name, about, kind, type_, parent, links, attributes, end - int(seconds * 1e9)
    )
    if error is not None:
        _failed(begun, error)
    begun.end(end)


def created(topic: str, client: str, partition: int | None) -> TraceContext | None:
    """The context for a record that is made now: of a span of its own, if the program traces."""
    made = tracer()
    if made is None:
        return current()
    said: dict[str, str | int] = {"messaging.client.id": client}
    if partition is not None:
        said["messaging.destination.partition.id"] = str(partition)
    begun = _begin(made, "create", topic, "PRODUCER", "create", None, (), said, None)
    begun.end()
    return _context_of(begun.get_span_context())


@contextlib.contextmanager
def processing(trace: TraceContext | None, topic: str) -> Iterator[None]:
    """Be in a span of the work on one record: what is called within becomes a part of it."""
    made = tracer()
    if made is None:
        yield
        return
    from opentelemetry import trace as api

    parent = trace if current() is None else None
    begun = _begin(made, "process", topic, "CONSUMER", "process", parent, [trace], None, None)
    with (
        Tracing(begun),
        api.use_span(begun, record_exception=False, set_status_on_exception=False),
    ):
        yield


def _begin(
    made: Tracer,
    name: str,
    about: str | None,
    kind: Kind,
    type_: str | None,
    parent: TraceContext | None,
    links: Iterable[TraceContext | None],
    attributes: Attributes | None,
    start: int | None,
) -> Span:
    from opentelemetry import trace as api

    said: dict[str, str | int] = {"messaging.system": SYSTEM, "messaging.operation.name": name}
    if type_ is not None:
        said["messaging.operation.type"] = type_
    if about is not None:
        said["messaging.destination.name"] = about
    within = None
    if parent is not None:
        within = api.set_span_in_context(api.NonRecordingSpan(_remote(parent)))
    return made.start_span(
        name if about is None else f"{name} {about}",
        within,
        api.SpanKind[kind],
        {**said, **(attributes or {})},
        _links(links),
        start,
        record_exception=False,
    )


def _links(contexts: Iterable[TraceContext | None]) -> list[Link]:
    from opentelemetry.trace import Link

    # Records of one request often came from one span: that is one link.
    some = dict.fromkeys(one for one in contexts if one is not None)
    return [Link(_remote(one)) for one in islice(some, MOST_LINKS)]


def _remote(context: TraceContext) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state = TraceState.from_header([context.tracestate]) if context.tracestate else None
    return SpanContext(
        context.trace_id, context.span_id, True, TraceFlags(context.flags), state or TraceState()
    )


def _context_of(span_context: SpanContext) -> TraceContext | None:
    if not span_context.is_valid:
        return None
    parent = (
        f"00-{span_context.trace_id:032x}-{span_context.span_id:016x}"
        f"-{span_context.trace_flags:02x}"
    )
    return context_of(parent, span_context.trace_state.to_header())


def _failed(begun: Span, error: BaseException) -> None:
    _mark_failed(begun, error.code if isinstance(error, LakequeueError) else type(error).__name__)


def _mark_failed(begun: Span, code: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    begun.set_attribute("error.type", code)
    begun.set_status(Status(StatusCode.ERROR))
