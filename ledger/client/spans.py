"""Spans of asks, waits, replies, claims and runs, where the program has set a recording OpenTelemetry provider.

OpenTelemetry is never imported here: a program that records has loaded its SDK. Names are those of its conventions for
generative AI; what they lack begins with `permission_ledger.`. No input, output, pattern or message is in a span.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from sys import modules
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from ledger.core import codec
from ledger.core.errors import LedgerError
from ledger.core.events import Asked
from ledger.core.trace_context import TraceContext, read_trace_context
from ledger.log.tail import entry_at
from ledger.masks.masking import Masks, first_kind
from ledger.stores.port import Position

if TYPE_CHECKING:
    from ledger.client.results import Result
    from ledger.session.state import Request, SessionState, Settled

OWN: Final = "permission_ledger."
"""The beginning of the names that no convention has."""

TEXT_CHARS: Final = 256
"""The length of a text in a span; longer ones are cut."""

_SDK: Final = "opentelemetry.sdk.trace"
_SCOPE: Final = "permission-ledger"
_NS_A_MS: Final = 1_000_000

Scalar = str | int | bool
F = TypeVar("F", bound="Callable[..., Coroutine[Any, Any, Result]]")

recorded_trace: Final[ContextVar[TraceContext | None]] = ContextVar("ledger trace context", default=None)
"""The context to record with an ask: that of its span, else one that was handed over."""


# --- the context of a caller ------------------------------------------------------------------------------------------


@contextmanager
def within_trace(trace: TraceContext | None) -> Iterator[None]:
    """Record this context with every ask of the block; None leaves the context as it is."""
    if trace is None:
        yield
        return
    token = hand_over(trace)
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


# --- recording --------------------------------------------------------------------------------------------------------


def recording_api() -> Any:
    """Return OpenTelemetry's trace API where the program has set a provider that may record; else None.

    Other libraries load the API alone, and asking it for a provider takes five calls, so the SDK is looked for first.
    """
    api = modules.get("opentelemetry.trace") if _SDK in modules else None
    if api is None:
        return None
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
    ledger, stream = owner._ledger, owner._stream  # noqa: SLF001 - of `Calls`, `SessionAnswers` or `SessionClaims`
    known: dict[str, Scalar | None] = {"gen_ai.conversation.id": stream.key.id, f"{OWN}request_id": request_id}
    with api.get_tracer(_SCOPE).start_as_current_span(
        name,
        _parent(api),
        attributes=_texts(ledger.streams.masks, known),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        with within_trace(_context_of(span)):
            try:
                result = await work
            except Exception as error:
                _fail(api, span, error.code if isinstance(error, LedgerError) else type(error).__name__)
                raise
        if span.is_recording():
            told = {**_of_request(stream.state, result.request), **_of_outcome(result)}
            span.set_attributes(_texts(ledger.streams.masks, told))
            if is_linked:
                await _link_to_ask(api, span, owner, result.request)
        return result


def _parent(api: Any) -> Any:
    """Return the context of a new span: the current one, else one with the caller's span."""
    trace = recorded_trace.get()
    if trace is None or api.get_current_span().get_span_context().is_valid:
        return None
    return api.set_span_in_context(api.NonRecordingSpan(_remote(api, trace)))


def _remote(api: Any, trace: TraceContext) -> Any:
    state = api.TraceState.from_header([trace.state]) if trace.state else None
    return api.SpanContext(
        trace.trace_id, trace.span_id, is_remote=True, trace_flags=api.TraceFlags(trace.flags), trace_state=state
    )


def _context_of(span: Any) -> TraceContext | None:
    context = span.get_span_context()
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    return read_trace_context(parent, context.trace_state.to_header())


def _fail(api: Any, span: Any, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(api.Status(api.StatusCode.ERROR, error_type))


async def _link_to_ask(api: Any, span: Any, owner: Any, request: Request) -> None:
    """Link to the context that was recorded with the ask; without one, or out of reach, there is no link."""
    try:
        at = Position(request.asked_ms, request.version)
        entry = await entry_at(owner._ledger.store, owner._stream.key, at)  # noqa: SLF001 - as above
        event = None if entry is None else codec.decode(entry.payload, entry.content).event
    except LedgerError:
        return
    if isinstance(event, Asked) and event.detail is not None and event.detail.trace is not None:
        span.add_link(_remote(api, event.detail.trace))


# --- runs -------------------------------------------------------------------------------------------------------------


class RunSpan:
    """The span of a run in this process, which is current in the task that began it until it ends."""

    def __init__(self, api: Any, span: Any) -> None:
        self._api = api
        self._span = span
        self._task = asyncio.current_task()
        self._token = modules["opentelemetry.context"].attach(api.set_span_in_context(span))

    def end(self, *, ok: bool) -> None:
        """End the span. A blocking program leaves its block in another task than it entered."""
        if asyncio.current_task() is self._task:
            modules["opentelemetry.context"].detach(self._token)
        _end_run(self._api, self._span, ok=ok)


async def begun_run(owner: Any, request: Request) -> RunSpan | None:
    """Return the span of a run that begins now in this process; None where nothing records."""
    api = recording_api()
    return None if api is None else RunSpan(api, await _run_span(api, owner, request))


async def told_run(owner: Any, request_id: str, *, ok: bool) -> None:
    """Record the span of a run that another process has told of, from its claim to its end; nothing without both."""
    api = recording_api()
    settled = None if api is None else owner._stream.state.settled.get(request_id)  # noqa: SLF001 - as above
    claim = None if settled is None else settled.claim
    if settled is not None and claim is not None and claim.ended_ms is not None:
        span = await _run_span(api, owner, settled.request, claim.at_ms)
        _end_run(api, span, ok=ok, at_ms=claim.ended_ms)


async def _run_span(api: Any, owner: Any, request: Request, since_ms: int | None = None) -> Any:
    state, masks = owner._stream.state, owner._ledger.streams.masks  # noqa: SLF001 - as above
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": state.session_id,
        f"{OWN}request_id": request.request_id,
        **_of_request(state, request),
    }
    span = api.get_tracer(_SCOPE).start_span(
        _text(masks, f"execute_tool {_tool(request)}"),
        _parent(api),
        attributes=_texts(masks, told),
        start_time=None if since_ms is None else since_ms * _NS_A_MS,
    )
    if span.is_recording():
        await _link_to_ask(api, span, owner, request)
    return span


def _end_run(api: Any, span: Any, *, ok: bool, at_ms: int | None = None) -> None:
    span.set_attribute(f"{OWN}run", "ok" if ok else "failed")
    if not ok:
        _fail(api, span, "TOOL_FAILED")
    span.end(None if at_ms is None else at_ms * _NS_A_MS)


# --- attributes -------------------------------------------------------------------------------------------------------


def _tool(request: Request) -> str:
    return request.tool_name or request.permission


def _of_request(state: SessionState, request: Request) -> dict[str, Scalar | None]:
    evaluation = request.evaluation
    return {
        "gen_ai.tool.name": _tool(request),
        "gen_ai.tool.call.id": request.request_id if request.tool is None else request.tool.call_id,
        "gen_ai.agent.name": request.agent or state.agent,
        f"{OWN}permission": request.permission,
        f"{OWN}project": state.project,
        f"{OWN}verdict": None if evaluation is None else str(evaluation.verdict),
        f"{OWN}rule": evaluation.rules[0].text if evaluation is not None and evaluation.rules else None,
    }


def _of_outcome(result: Result) -> dict[str, Scalar | None]:
    settled = result.settled
    if settled is None:
        return {}
    return {
        f"{OWN}outcome": settled.outcome,
        f"{OWN}reply": settled.reply,
        f"{OWN}by_kind": decided_by(settled),
        f"{OWN}wait_ms": settled.at_ms - settled.request.asked_ms,
    }


def decided_by(settled: Settled) -> str:
    """Return the kind of what decided: a kind of actor, or `rule`, `grant`, `decider`, `cascade`, `deadline`."""
    request = settled.request
    if settled.cause is not None:
        return settled.cause.kind
    if settled.outcome == "expired":
        return "deadline"
    if settled.outcome == "cancelled" or settled.reply is not None:
        return settled.by.kind
    if settled.outcome == "allowed" and request.grants:
        return "grant"
    verdict = "allow" if settled.outcome == "allowed" else "deny"
    by_rules = request.evaluation is not None and request.evaluation.verdict == verdict
    return "rule" if by_rules or not request.opinions else "decider"


def _texts(masks: Masks | None, attributes: Mapping[str, Scalar | None]) -> dict[str, Scalar]:
    """Return the attributes that have a value; texts are masked once more, valid as UTF-8, and cut."""
    return {
        name: _text(masks, value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def _text(masks: Masks | None, text: str) -> str:
    masked: str = text if masks is None else masks.value(text, keeps=True)
    return masked.encode("utf-8", "replace").decode()[:TEXT_CHARS]
