"""The trace contexts of callers over HTTP, and the export of this gateway's spans to an OpenTelemetry collector."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from litestar import Request

from ledger.client.spans import hand_over, recording_api
from ledger.core.extras import install_line
from ledger.core.trace_context import TraceContext, read_trace_context

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger(__name__)

SERVICE: Final = "permission-ledger"
"""The name of the service where the environment names none."""

FLUSH_SECONDS: Final = 3.0
"""The time limit for the collector to take the last spans at the end of the process."""

PROTOCOL: Final = "http/protobuf"
_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def trace_of(said: Any, request: Request[Any, Any, Any]) -> TraceContext | None:
    """Return the context of an ask: that of its body, else that of its headers; None without a valid one, no error."""
    if isinstance(said, dict):
        found = read_trace_context(said.get("traceparent"), said.get("tracestate"))
        if found is not None:
            return found
    headers = request.headers
    return read_trace_context(headers.get("traceparent"), headers.get("tracestate"))


async def take_context(request: Request[Any, Any, Any]) -> None:
    """Make the spans of a request children of its caller's span."""
    hand_over(trace_of(None, request))


@contextmanager
def exporting_spans() -> Iterator[None]:
    """Export the spans of this process during the block, where the environment names a collector.

    A provider that was set before stays. Spans are sent by a thread, from a queue of bounded size. What keeps them from
    being exported is logged: the variables may be meant for other programs, and asks never depend on spans.
    """
    wants = any(os.environ.get(name, "").strip() for name in _ENDPOINTS) and not _is_off(os.environ)
    provider = _provider() if wants and recording_api() is None else None
    if provider is None:
        yield
        return
    try:
        yield
    finally:
        # The SDK waits up to 30 s for a collector that does not answer.
        flushing = threading.Thread(target=provider.shutdown, name="flush spans", daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)
        if flushing.is_alive():
            log.warning("the collector did not take the last spans within %g s; they are lost", FLUSH_SECONDS)


def _is_off(environment: Mapping[str, str]) -> bool:
    return environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or environment.get(_EXPORTER) == "none"


def _provider() -> TracerProvider | None:
    """Set and return a provider with the standard settings of the environment; None, and a warning, where it cannot."""
    why_not = why_not_exported(os.environ)
    if why_not is None:
        try:
            return _set_provider()
        except ValueError as error:
            why_not = f"a variable OTEL_* cannot be read: {error}"
    log.warning("spans are not exported: %s", why_not)
    return None


def why_not_exported(environment: Mapping[str, str]) -> str | None:
    """Return why spans would not be exported with these variables, in words for people; None where they would be."""
    named = environment.get(_EXPORTER, "").strip() or "otlp"
    if named != "otlp":
        return f"{_EXPORTER} is `{named}`; the gateway exports by `otlp` alone"
    for name in _PROTOCOLS:
        said = environment.get(name, "").strip() or PROTOCOL
        if said != PROTOCOL:
            return f"{name} is `{said}`; the gateway exports by `{PROTOCOL}` alone"
    try:
        # Other programs bring the API alone.
        is_installed = all(map(find_spec, ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")))
    except ModuleNotFoundError:
        is_installed = False
    return None if is_installed else f"the export {install_line('telemetry')}"


def _set_provider() -> TracerProvider:
    from opentelemetry import trace  # noqa: PLC0415 - an extra
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    # The detector again: a name given here would win over that of the environment.
    resource = Resource.create({"service.name": SERVICE}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider
