"""The spans of calls, computed from the log: one of each call, from its ask to the end of its run. Pure.

Ids are derived from the event of the ask, so that the same call has the same span whoever computes it, and when. Names
are those of OpenTelemetry's conventions for generative AI; what they lack begins with `permission_ledger.`. No text of
a call's input, nor of its output, is in a span.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, Literal, NamedTuple

import msgspec

from ledger.core.events import Asked
from ledger.core.grants import Recorded
from ledger.core.trace_context import TraceContext
from ledger.masks.masking import Masks
from ledger.session.state import SessionState, Settled

OWN: Final = "permission_ledger."
"""The beginning of the names that no convention has."""

TEXT_CHARS: Final = 256
"""The length of a text in a span."""

RUN_BEGINS_MS: Final = 10_000
"""The time within which the run of an allowed call begins; its span ends at the allow otherwise."""

MCP_TOOLS: Final = "mcp__"
"""The beginning of the names that agents give to the tools of MCP servers."""

Scalar = str | int | bool
RunStatus = Literal["ok", "failed", "unknown"]


class SpanEvent(NamedTuple):
    """A moment of a span; `ms` is server time."""

    name: str
    ms: int
    attributes: Mapping[str, Scalar]


class RunOutcome(NamedTuple):
    """The end of a call's run. `unknown`: nobody recorded it."""

    status: RunStatus
    ms: int


class CallSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A finished span. Times are server ms; `parent_id` None is the root of a trace.

    `is_sampled` is the decision of the caller's trace, None without one.
    """

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    state: str
    is_sampled: bool | None
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Scalar]
    events: tuple[SpanEvent, ...]
    error: str | None


def call_span(
    session: SessionState, asked: Recorded, event: Asked, settled: Settled, run: RunOutcome | None, *, masks: Masks
) -> CallSpan:
    """Return the span of a settled call; `event` is that of `asked`. Without a run it ends with the outcome."""
    trace = None if event.detail is None else event.detail.trace
    digest = _digest("span", session.session_id, event.request_id, asked.event_id)
    error = _error_of(settled, run)
    texts = _Texts(masks)
    return CallSpan(
        name=texts.told(f"execute_tool {_tool(event)}"),
        trace_id=_id(digest[:16]) if trace is None else trace.trace_id,
        span_id=_id(digest[16:24]),
        parent_id=None if trace is None else trace.span_id,
        state="" if trace is None else texts.clean(trace.state),
        is_sampled=_sampled(trace),
        start_ms=asked.ms,
        end_ms=settled.at_ms if run is None else run.ms,
        attributes=texts.all({**_attributes(session, event, settled, run), **_error(error)}),
        events=tuple(
            one._replace(attributes=texts.all(one.attributes)) for one in _moments(asked, event, settled, run)
        ),
        error=error,
    )


def run_span(whole: CallSpan, settled: Settled, run: RunOutcome) -> CallSpan:
    """Return the span of a run that began after the span of its call had ended; that span is its parent."""
    claim = settled.claim
    begun_ms = settled.at_ms if claim is None else claim.at_ms
    named = str(settled.version) if claim is None else f"{claim.claim_id} {claim.version}"
    digest = _digest("run", f"{whole.span_id:x}", named)
    error = _run_error(run)
    begun = () if claim is None else (SpanEvent(f"{OWN}claimed", begun_ms, {}),)
    attributes = {name: value for name, value in whole.attributes.items() if name != "error.type"}
    return msgspec.structs.replace(
        whole,
        span_id=_id(digest[:8]),
        parent_id=whole.span_id,
        start_ms=begun_ms,
        end_ms=run.ms,
        attributes={**attributes, **_error(error), f"{OWN}run": run.status},
        events=(*begun, _finished(run)),
        error=error,
    )


def begins_late(settled: Settled, run: RunOutcome) -> bool:
    """Return whether a run began so late that the span of its call had ended with the allow."""
    begun_ms = run.ms if settled.claim is None else settled.claim.at_ms
    return begun_ms - settled.at_ms > RUN_BEGINS_MS


def _attributes(session: SessionState, event: Asked, settled: Settled, run: RunOutcome | None) -> dict[str, Scalar]:
    evaluation = settled.request.evaluation
    rule = evaluation.rules[0].text if evaluation is not None and evaluation.rules else None
    tool = _tool(event)
    found: dict[str, Scalar | None] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": event.request_id if event.tool is None else event.tool.call_id,
        "gen_ai.agent.name": event.agent or session.agent,
        "gen_ai.conversation.id": session.session_id,
        "mcp.method.name": "tools/call" if tool.startswith(MCP_TOOLS) else None,
        f"{OWN}request_id": event.request_id,
        f"{OWN}permission": event.permission,
        f"{OWN}project": session.project,
        f"{OWN}verdict": str(event.verdict),
        f"{OWN}outcome": settled.outcome,
        f"{OWN}reply": settled.reply,
        f"{OWN}rule": rule,
        f"{OWN}by_kind": decided_by(settled),
        f"{OWN}wait_ms": settled.at_ms - settled.request.asked_ms,
        f"{OWN}run": None if run is None else run.status,
    }
    return {name: value for name, value in found.items() if value is not None}


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


def _moments(asked: Recorded, event: Asked, settled: Settled, run: RunOutcome | None) -> list[SpanEvent]:
    answer: dict[str, Scalar] = {f"{OWN}outcome": settled.outcome, f"{OWN}by_kind": decided_by(settled)}
    found = [
        SpanEvent(f"{OWN}asked", asked.ms, {f"{OWN}verdict": str(event.verdict)}),
        SpanEvent(f"{OWN}answered", settled.at_ms, answer),
    ]
    if run is not None:
        if settled.claim is not None:
            found.append(SpanEvent(f"{OWN}claimed", settled.claim.at_ms, {}))
        found.append(_finished(run))
    return found


def _finished(run: RunOutcome) -> SpanEvent:
    return SpanEvent(f"{OWN}finished", run.ms, {f"{OWN}run": run.status})


def _tool(event: Asked) -> str:
    return event.tool_name or event.permission


def _error_of(settled: Settled, run: RunOutcome | None) -> str | None:
    if settled.outcome != "allowed":
        return settled.outcome.upper()
    return None if run is None else _run_error(run)


def _run_error(run: RunOutcome) -> str | None:
    return {"ok": None, "failed": "TOOL_FAILED", "unknown": "END_UNKNOWN"}[run.status]


def _error(error: str | None) -> dict[str, Scalar]:
    return {} if error is None else {"error.type": error}


def _sampled(trace: TraceContext | None) -> bool | None:
    return None if trace is None else trace.is_sampled


def _digest(*parts: str) -> bytes:
    return sha256("\n".join(("permission-ledger", *parts)).encode("utf-8", "surrogatepass")).digest()


def _id(part: bytes) -> int:
    """Return an id, which must not be 0."""
    return int.from_bytes(part) or 1


class _Texts:
    """Texts of a span: masked once more, since older logs may hold secrets, valid as UTF-8, and cut."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks

    def all(self, attributes: Mapping[str, Scalar]) -> dict[str, Scalar]:
        return {name: self.told(value) if isinstance(value, str) else value for name, value in attributes.items()}

    def told(self, text: str) -> str:
        masked: str = self._masks.value(text, keeps=True)
        return masked.encode("utf-8", "replace").decode()[:TEXT_CHARS]

    def clean(self, text: str) -> str:
        """Return a text that may not be changed, or nothing where it has a secret."""
        return text if self._masks.value(text, keeps=True) == text else ""
