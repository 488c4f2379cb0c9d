"""A provider of OpenTelemetry's SDK that keeps the spans of this process, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class RecordedSpans:
    """The spans that have ended, in order."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        return [one.name.removeprefix("permission_ledger.") for one in self.all]

    def named(self, name: str) -> ReadableSpan:
        """Return the last span of this name."""
        return [one for one in self.all if one.name.removeprefix("permission_ledger.") == name][-1]


@contextmanager
def recording() -> Iterator[RecordedSpans]:
    """Set a provider, which a program can do but once, and take it back."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    before = trace._TRACER_PROVIDER
    trace._TRACER_PROVIDER = provider
    try:
        yield RecordedSpans(exporter)
    finally:
        trace._TRACER_PROVIDER = before
        provider.shutdown()


def ids(span: Any) -> tuple[int, int]:
    """Return the ids of the trace and of the span; `span` is a span, a parent or a link."""
    context = span.context if hasattr(span, "context") else span
    return context.trace_id, context.span_id


def told(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes, without the prefix of the names that no convention has."""
    return {name.removeprefix("permission_ledger."): value for name, value in (span.attributes or {}).items()}
