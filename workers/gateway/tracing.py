"""The trace contexts of callers over HTTP, and the export of this gateway's spans to an OpenTelemetry collector."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from litestar import Request

from ledger.client.spans import hand_over, recording_api
from ledger.core.event_shapes import TraceContext, read_trace_context
from ledger.core.extras import missing_extra

log = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 3.0
"""The time limit for the collector to take the last spans at the end of the process."""

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def trace_of(said: Any, request: Request[Any, Any, Any]) -> TraceContext | None:
    """Return the context of an ask: that of its body, else that of its headers; None without a valid one, no error."""
    sources = (said if isinstance(said, dict) else {}, request.headers)
    found = (read_trace_context(one.get("traceparent"), one.get("tracestate")) for one in sources)
    return next(filter(None, found), None)


async def take_context(request: Request[Any, Any, Any]) -> None:
    """Make the spans of a request children of its caller's span."""
    hand_over(trace_of(None, request))


@contextmanager
def exporting_spans() -> Iterator[None]:
    """Export the spans of this process during the block, where the environment names a collector.

    A provider that was set before stays. Spans are sent by a thread, from a queue of bounded size. What keeps them from
    being exported is logged: the variables may be meant for other programs, and asks never depend on spans.
    """
    named = any(os.environ.get(name, "").strip() for name in _ENDPOINTS)
    is_wanted = named and (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp") == "otlp" and recording_api() is None
    provider = _provider() if is_wanted else None
    try:
        yield
    finally:
        if provider is not None:
            # The SDK waits up to 30 s for a collector that does not answer.
            flushing = threading.Thread(target=provider.shutdown, name="flush spans", daemon=True)
            flushing.start()
            flushing.join(FLUSH_SECONDS)
            if flushing.is_alive():
                log.warning("the collector did not take the last spans within %g s; they are lost", FLUSH_SECONDS)


def _provider() -> Any:
    """Set and return a provider with the standard settings of the environment; None, and a warning, where it cannot."""
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        # The detector again: a name given here would win over that of the environment.
        resource = Resource.create({"service.name": "permission-ledger"}).merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except (ImportError, ValueError) as error:
        log.warning("spans are not exported: %s", (isinstance(error, ImportError) and missing_extra(error)) or error)
        return None
    trace.set_tracer_provider(provider)
    return provider
