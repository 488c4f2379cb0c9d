"""Export of spans over OTLP, as the standard variables OTEL_* configure it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ledger.core.errors import InputError, LedgerError, MissingExtraError
from ledger.core.extras import install_line, require_extra
from projections.call_spans import CallSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger(__name__)

DISABLED: Final = "OTEL_SDK_DISABLED"
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
SERVICE: Final = "OTEL_SERVICE_NAME"
PROTOCOL: Final = "http/protobuf"

SCOPE: Final = "permission-ledger"
"""The name of the instrumentation, and of the service where the environment names none."""

_NS_A_MS: Final = 1_000_000


PROVIDERS: Final = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
"""Variables that name a provider of the exporter's HTTP session, which then shows us no answer."""

TRIED_AGAIN: Final = frozenset({408, 429})
"""Statuses of 400 to 499 that do not refuse for good."""


class ExportError(LedgerError):
    """The collector did not take spans."""

    code = "EXPORT"


class SpansRefusedError(ExportError):
    """The collector refused spans for good: sent again, they would be refused again. `status` is its answer."""

    code = "EXPORT"

    def __init__(self, count: int, status: int) -> None:
        super().__init__(f"the collector refused {count} spans (HTTP {status})")
        self.status = status


def check_environment(environment: Mapping[str, str]) -> None:
    """Raise MissingExtraError without the extra, InputError for variables by which nothing would be exported."""
    require_extra("telemetry", "the tracer")
    # Other programs bring the API alone.
    for module in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
        if not _can_import(module):
            raise MissingExtraError(f"the tracer {install_line('telemetry')}", extra="telemetry")
    if environment.get(DISABLED, "").strip().lower() == "true":
        raise InputError(f"{DISABLED} is `true`, so nothing would be exported; unset it, or do not start a tracer")
    named = environment.get(EXPORTER, "otlp").strip() or "otlp"
    if named != "otlp":
        raise InputError(f"{EXPORTER} is `{named}`; the tracer exports by `otlp` alone")
    for name in PROTOCOLS:
        said = environment.get(name, "").strip() or PROTOCOL
        if said != PROTOCOL:
            raise InputError(f"{name} is `{said}`; the tracer exports by `{PROTOCOL}` alone")
    for name in ENDPOINTS:
        said = environment.get(name, "").strip()
        if said and not said.startswith(("http://", "https://")):
            raise InputError(f"{name} is `{said}`; it must begin with `http://` or `https://`")


def wants_tracer(environment: Mapping[str, str]) -> bool:
    """Return whether an endpoint is configured, as programs with OpenTelemetry expect it, and tracing is not off."""
    is_off = environment.get(DISABLED, "").strip().lower() == "true" or environment.get(EXPORTER, "").strip() == "none"
    return not is_off and any(environment.get(name, "").strip() for name in ENDPOINTS)


def _can_import(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class SpanExport:
    """An exporter with the resource and the sampler of the environment. Its calls are made in threads."""

    def __init__(self) -> None:
        check_environment(os.environ)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

        named = {} if os.environ.get(SERVICE) else {"service.name": SCOPE}
        # The environment wins over a name given here only where it has one.
        resource = Resource.create(named) if _names_no_service(os.environ) else Resource.create()
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._resource = provider.resource
        self._sampler = provider.sampler
        self._statuses: list[int] = []
        self._exporter = OTLPSpanExporter(session=self._session())

    async def export(self, spans: Sequence[CallSpan]) -> int:
        """Export the sampled ones of these spans and return their number. Raises ExportError, SpansRefusedError."""
        sampled = [one for one in spans if self._is_sampled(one)]
        if sampled:
            await asyncio.to_thread(self._export, [self._readable(one) for one in sampled])
        return len(sampled)

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _export(self, spans: Sequence[ReadableSpan]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - an extra

        self._statuses.clear()
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            status = self._statuses[-1] if self._statuses else 0
            if 400 <= status < 500 and status not in TRIED_AGAIN:
                raise SpansRefusedError(len(spans), status)
            raise ExportError(f"the collector did not take {len(spans)} spans")

    def _session(self) -> Any:
        """Return a session that tells us the status of the last answer; None where the environment brings its own."""
        if any(os.environ.get(name) for name in PROVIDERS):
            return None
        import requests  # noqa: PLC0415 - an extra

        def answered(response: Any, **_: Any) -> None:
            self._statuses.append(response.status_code)

        session = requests.Session()
        session.hooks["response"].append(answered)
        return session

    def _is_sampled(self, span: CallSpan) -> bool:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.sampling import Decision  # noqa: PLC0415

        parent = None
        if span.is_sampled is not None and span.parent_id is not None:
            context = _context(span.trace_id, span.parent_id, span.state, is_sampled=span.is_sampled, is_remote=True)
            parent = trace.set_span_in_context(trace.NonRecordingSpan(context))
        found = self._sampler.should_sample(
            parent, span.trace_id, span.name, trace.SpanKind.INTERNAL, dict(span.attributes)
        )
        return found.decision is not Decision.DROP

    def _readable(self, span: CallSpan) -> ReadableSpan:
        from opentelemetry.sdk.trace import Event, ReadableSpan  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

        parent = span.parent_id
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id, span.state, is_sampled=True, is_remote=False),
            parent=None
            if parent is None
            else _context(span.trace_id, parent, span.state, is_sampled=True, is_remote=True),
            resource=self._resource,
            attributes=dict(span.attributes),
            events=[Event(one.name, dict(one.attributes), one.ms * _NS_A_MS) for one in span.events],
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=span.start_ms * _NS_A_MS,
            end_time=span.end_ms * _NS_A_MS,
            instrumentation_scope=InstrumentationScope(SCOPE),
        )


def _names_no_service(environment: Mapping[str, str]) -> bool:
    named = environment.get(SERVICE, "") or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return not named


def _context(trace_id: int, span_id: int, state: str, *, is_sampled: bool, is_remote: bool) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState  # noqa: PLC0415 - an extra

    flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
    return SpanContext(trace_id, span_id, is_remote, flags, TraceState.from_header([state]) if state else TraceState())
