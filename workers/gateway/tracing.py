"""The trace context of an ask over HTTP: that of its body, else that of its headers."""

from __future__ import annotations

from typing import Any

from litestar import Request

from ledger.core.trace_context import TraceContext, read_trace_context


def trace_of(said: Any, request: Request[Any, Any, Any]) -> TraceContext | None:
    """Return the caller's context; None without a valid one, which is no error."""
    if isinstance(said, dict):
        found = read_trace_context(said.get("traceparent"), said.get("tracestate"))
        if found is not None:
            return found
    headers = request.headers
    return read_trace_context(headers.get("traceparent"), headers.get("tracestate"))
