"""The trace context of the running task, which its asks record: one that was handed over, else OpenTelemetry's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from msgspec.structs import replace

from ledger.core.trace_context import TraceContext, read_trace_context
from ledger.masks.masking import first_kind

_handed_over: Final[ContextVar[TraceContext | None]] = ContextVar("ledger trace context", default=None)


@contextmanager
def within_trace(trace: TraceContext | None) -> Iterator[None]:
    """Record this context with every ask of the block; None leaves the context as it is."""
    if trace is None:
        yield
        return
    token = _handed_over.set(trace)
    try:
        yield
    finally:
        _handed_over.reset(token)


def current_trace() -> TraceContext | None:
    """Return the context to record with an ask; None where nobody traces. A `tracestate` with a secret is left out."""
    trace = _handed_over.get() or _of_opentelemetry()
    if trace is not None and trace.state and first_kind(trace.state) is not None:
        return replace(trace, state="")
    return trace


def _of_opentelemetry() -> TraceContext | None:
    """Return the context of OpenTelemetry's current span, where the program has imported OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    try:
        context = api.get_current_span().get_span_context()
        parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
        state = context.trace_state.to_header()
    except Exception:  # noqa: BLE001 - another library, perhaps half imported; it must not fail an ask
        return None
    return read_trace_context(parent, state)
