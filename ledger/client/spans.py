"""Spans of asks, waits, replies, claims and runs, where the program has set a recording OpenTelemetry provider.

Nothing of OpenTelemetry is imported before the program has loaded its SDK. Names are those of its conventions for
generative AI; what they lack begins with `permission_ledger.`. No input, output, pattern or message is in a span.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from sys import modules
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from ledger.client.lookups import asked_event
from ledger.client.results import Result, result_of
from ledger.core.errors import LedgerError
from ledger.core.event_shapes import TraceContext, read_trace_context
from ledger.masks.masking import Masks, first_kind
from ledger.session.texts import decider_of
from ledger.stores.port import Position

OWN: Final = "permission_ledger."
"""The beginning of the names that no convention has."""

_SDK: Final = "opentelemetry.sdk.trace"
_NS_A_MS: Final = 1_000_000

F = TypeVar("F", bound="Callable[..., Coroutine[Any, Any, Result]]")

recorded_trace: Final[ContextVar[TraceContext | None]] = ContextVar("ledger trace context", default=None)
"""The context to record with an ask: that of its span, else one that was handed over."""


@contextmanager
def within_trace(trace: TraceContext | None) -> Iterator[None]:
    """Record this context with every ask of the block; None leaves the context as it is."""
    token = hand_over(trace or recorded_trace.get())
    try:
        yield
    finally:
        recorded_trace.reset(token)


def hand_over(trace: TraceContext | None) -> Any:
    """Set the context of a caller in the running task; return the token to reset it.

    A `tracestate` with a secret is left out.
    """
    if trace is not None and trace.state and first_kind(trace.state) is not None:
        trace = replace(trace, state="")
    return recorded_trace.set(trace)


def recording_api() -> Any:
    """Return OpenTelemetry's trace API where the program has set a provider that may record; else None.

    Other libraries load the API alone, and asking it for a provider takes five calls, so the SDK is looked for first.
    """
    if _SDK not in modules:
        return None
    api: Any = modules["opentelemetry.trace"]
    is_off = isinstance(api.get_tracer_provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider))
    return None if is_off else api


def spanned(name: str, *, is_linked: bool = False) -> Callable[[F], F]:
    """Decorate an operation on a request of a session, whose first argument is, or has, the request's id.

    Where nothing records this adds one call. `is_linked`: the span links to that of the ask, which is read from the log.
    """

    def decorate(operation: F) -> F:
        @wraps(operation)
        def entered(owner: Any, request: Any, *args: Any, **more: Any) -> Coroutine[Any, Any, Result]:
            work = operation(owner, request, *args, **more)
            if _SDK not in modules or (api := recording_api()) is None:
                return work
            request_id = request if isinstance(request, str) else request.request_id
            return _in_span(api, f"{OWN}{name}", owner, request_id, work, is_linked=is_linked)

        return entered  # type: ignore[return-value]

    return decorate


async def _in_span(
    api: Any, name: str, owner: Any, request_id: str, work: Coroutine[Any, Any, Result], *, is_linked: bool
) -> Result:
    span = _started(api, owner, name, request_id)
    current = api.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False)
    with current, within_trace(_context_of(api, span)):
        try:
            result = await work
        except Exception as error:
            _fail(api, span, error.code if isinstance(error, LedgerError) else type(error).__name__)
            raise
        await _tell(api, span, owner, result, is_linked=is_linked)
        return result


async def begun_run(owner: Any, result: Result, since: int | None = None) -> Callable[..., None] | None:
    """Begin the span of a run, current in this task; return what ends it with `ok`, or None where nothing records."""
    if (api := recording_api()) is None:
        return None
    span = _started(api, owner, f"execute_tool {_tool(result)}", result.request_id, since)
    span.set_attribute("gen_ai.operation.name", "execute_tool")
    await _tell(api, span, owner, result, is_linked=True)
    context = modules["opentelemetry.context"]
    around = context.get_current()
    # The context is put back by hand: a blocking program leaves its block in another task, where no token is valid.
    context.attach(api.set_span_in_context(span))

    def end(*, ok: bool, at: int | None = None) -> None:
        context.attach(around)
        if not ok:
            _fail(api, span, "TOOL_FAILED")
        span.end(at)

    return end


async def reported_run(owner: Any, request_id: str, *, ok: bool) -> None:
    """Record the span of a run that another process has told of, from its claim to its end; nothing without both."""
    if recording_api() is None:
        return
    result = result_of(owner._stream.state, request_id)  # noqa: SLF001 - as below
    claim = None if result.settled is None else result.settled.claim
    if claim is not None and claim.ended_ms is not None:
        end = await begun_run(owner, result, claim.at_ms * _NS_A_MS)
        if end is not None:
            end(ok=ok, at=claim.ended_ms * _NS_A_MS)


def _started(api: Any, owner: Any, name: str, request_id: str, since: int | None = None) -> Any:
    """Start a span of any kind, now or at a time in ns: a child of the current span, else of the caller's."""
    trace = recorded_trace.get()
    is_within = api.get_current_span().get_span_context().is_valid
    parent = None if trace is None or is_within else _remote(trace)
    span = api.get_tracer("permission-ledger").start_span(_masked(owner, name), parent, start_time=since)
    _set(span, owner, {"gen_ai.conversation.id": owner._stream.key.id, f"{OWN}request_id": request_id})  # noqa: SLF001
    return span


async def _tell(api: Any, span: Any, owner: Any, result: Result, *, is_linked: bool) -> None:
    """Set what is known of a request, and link to the context that was recorded with its ask, where it can be read."""
    ledger, stream = owner._ledger, owner._stream  # noqa: SLF001 - of `Calls`, `SessionAnswers` or `SessionClaims`
    request, settled = result.request, result.settled
    attributes = {
        "gen_ai.tool.name": _tool(result),
        f"{OWN}project": stream.state.project,
        f"{OWN}outcome": result.outcome,
        f"{OWN}reply": result.reply,
        f"{OWN}decided_by": None if settled is None else decider_of(settled) or settled.by.kind,
    }
    _set(span, owner, attributes)
    if not is_linked or not span.is_recording():
        return
    with suppress(LedgerError):
        asked = await asked_event(ledger.store, stream.key, Position(request.asked_ms, request.version))
        if asked is not None and asked.detail is not None and asked.detail.trace is not None:
            span.add_link(api.get_current_span(_remote(asked.detail.trace)).get_span_context())


def _tool(result: Result) -> str:
    return result.request.tool_name or result.request.permission


def _set(span: Any, owner: Any, attributes: Mapping[str, str | None]) -> None:
    for name, value in attributes.items():
        if value is not None:
            span.set_attribute(name, _masked(owner, value))


def _masked(owner: Any, text: str) -> str:
    masks: Masks | None = owner._ledger.streams.masks  # noqa: SLF001 - as above
    return text if masks is None else masks.value(text, keeps=True)


def _fail(api: Any, span: Any, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(api.Status(api.StatusCode.ERROR, error_type))


def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - see above

    return TraceContextTextMapPropagator()


def _remote(trace: TraceContext) -> Any:
    return _propagator().extract({"traceparent": trace.parent, "tracestate": trace.state})


def _context_of(api: Any, span: Any) -> TraceContext | None:
    found: dict[str, str] = {}
    _propagator().inject(found, api.set_span_in_context(span))
    return read_trace_context(found.get("traceparent"), found.get("tracestate"))
