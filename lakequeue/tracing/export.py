"""Where the processes of a queue send their spans: as the variables of OpenTelemetry say.

They are read here and by OpenTelemetry's own SDK, and no setting of ours repeats them: whoever runs
a collector has set them for every program already (docs/traces.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

import structlog

from lakequeue.extras import pip_install

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

log = structlog.get_logger("tracing")

_EXPORTERS: Final = "OTEL_TRACES_EXPORTER"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_STOP_S = 3.0


def exporters_of(environ: Mapping[str, str]) -> list[str]:
    """Names of exporters, as packages register them; [] if this program is not to trace. Pure.

    Unlike OpenTelemetry's own start, nothing is sent where nobody said so: a queue without a
    collector would log each minute that it finds none.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    said = environ.get(_EXPORTERS, "").strip()
    if not said and any(environ.get(name) for name in _ENDPOINTS):
        said = "otlp"
    names = [name.strip() for name in said.split(",") if name.strip()]
    return [] if "none" in names else [_registered(name, environ) for name in names]


def _registered(name: str, environ: Mapping[str, str]) -> str:
    if name != "otlp":
        return name
    protocol = next((environ[one] for one in _PROTOCOLS if environ.get(one)), "http/protobuf")
    return "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"


class Exporting:
    """The spans of one process, until it ends."""

    def __init__(self, provider: Any = None) -> None:
        self._provider = provider

    def flush(self) -> None:
        """Send what there is, but wait for no collector that hangs."""
        if self._provider is not None:
            self._provider.force_flush(int(_STOP_S * 1_000))

    def stop(self) -> None:
        """Send what is left, but wait for no collector that hangs."""
        if self._provider is None:
            return
        last = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(_STOP_S)


def start(service: str, node: str) -> Exporting:
    """Have spans of this process sent, if the environment says so.

    Whatever keeps it from that is logged: a queue runs as well without its traces.
    """
    names = exporters_of(os.environ)
    if not names:
        return Exporting()
    try:
        return Exporting(_provider(names, service, node))
    except ModuleNotFoundError as error:
        log.warning(
            "tracing.skipped",
            module=error.name,
            hint=f"{pip_install('otel')}, or unset OTEL_*",
        )
    except Exception as error:  # noqa: BLE001 -- a setting of OpenTelemetry's, and not ours
        log.warning("tracing.failed", error=str(error))
    return Exporting()


def _provider(names: list[str], service: str, node: str) -> Any:
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None  # `opentelemetry-instrument` has started us, and sends what we say
    said = {SERVICE_INSTANCE_ID: node}
    named = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not os.environ.get("OTEL_SERVICE_NAME") and f"{SERVICE_NAME}=" not in named:
        said[SERVICE_NAME] = f"lakequeue-{service}"
    provider = TracerProvider(resource=Resource.create(said), shutdown_on_exit=False)
    for exporter in _exporters(names):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    log.info("tracing.started", exporters=names)
    return provider


def _exporters(names: list[str]) -> Iterator[SpanExporter]:
    for name in names:
        found = list(entry_points(group="opentelemetry_traces_exporter", name=name))
        if not found:
            raise ModuleNotFoundError(f"no exporter {name}", name=f"exporter {name}")
        yield found[0].load()()
