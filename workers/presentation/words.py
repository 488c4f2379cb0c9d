"""Requests, outcomes and events in words, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ledger import Result
from ledger.core.codec import NewerEvent
from ledger.core.durations import format_duration
from ledger.core.events import (
    Asked,
    Cancelled,
    ClientConnected,
    ClientDisconnected,
    DeadlineMoved,
    Event,
    Expired,
    Granted,
    Imported,
    LockPassed,
    LockRequested,
    LockTaken,
    LogRegressed,
    Notification,
    PolicyChanged,
    Reopened,
    Replied,
    Revoked,
    SessionClosed,
    SessionOpened,
    ToolFinished,
)
from ledger.core.times import format_time
from ledger.policy import RuleRef
from ledger.session.texts import answerer
from ledger.session.would_run import describe_asked, quoted, would_run
from workers.presentation.text import revealed

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def about(ms: int) -> str:
    """Return a duration in its largest unit, rounded down: `6d`, `59s`; at least `0s`."""
    for unit, size in _UNITS:
        if ms >= size:
            return f"{ms // size}{unit}"
    return "0s"


def listed(texts: Iterable[str]) -> str:
    """Return several texts for one cell of a table."""
    return quoted(texts, None)


def result_lines(result: Result) -> list[str]:
    """Return the outcome of a request, or its pending state: who, when and why."""
    lines = [_headline(result), f"  request  {result.request_id} of session {result.session}, version {result.version}"]
    lines.append(f"  what     {revealed(f'{result.request.permission} {would_run(result.request).in_line(None)}')}")
    lines.append(f"  at       {result.at}")
    if result.message:
        lines.append(f"  message  {result.message}")
    lines += [f"  because  {reason}" for reason in _reasons(result)]
    if result.outcome not in (None, "allowed"):
        lines.append(f"  agent    {result.agent}")
    return lines


def _headline(result: Result) -> str:
    if result.outcome is None:
        deadline = result.request.deadline_ms
        until = "without a deadline" if deadline is None else f"until {format_time(deadline)} ({result.request.tier})"
        return f"pending {until}"
    how = f" ({result.reply})" if result.reply else ""
    who = answerer(result.by.name, result.told)
    if result.outcome == "denied" and result.reply is not None:
        return f"denied by the current rules, although {who} answered {result.reply}"
    if result.outcome == "denied" or (result.outcome == "allowed" and result.reply is None):
        return f"{result.outcome} by {_decided_by(result)}"
    if result.outcome == "expired":
        return "expired"
    return f"{result.outcome} by {who}{how}"


def _decided_by(result: Result) -> str:
    """Return the decider of an outcome without a person's answer: grants, a decider after the rules, or the rules."""
    if result.outcome == "allowed" and result.request.grants:
        return f"grant {', '.join(result.request.grants)}"
    by_rules = result.evaluation and result.evaluation.verdict == _VERDICTS.get(result.outcome or "")
    deciders = [one.decider for one in result.request.opinions if one.verdict == _VERDICTS.get(result.outcome or "")]
    return "rule" if by_rules or not deciders else ", ".join(deciders)


_VERDICTS: Final = {"allowed": "allow", "denied": "deny"}


def _reasons(result: Result) -> list[str]:
    evaluation = result.evaluation
    reasons = [_rule(rule) for rule in evaluation.rules] if evaluation else []
    if evaluation and evaluation.reason:
        reasons.append(evaluation.reason)
    if result.settled and result.settled.cause:
        cause = result.settled.cause
        from_what = f"the answer to {cause.request_id}" if cause.kind == "cascade" else f"grant {cause.grant_id}"
        reasons.append(f"it followed from {from_what}")
    said = [opinion for opinion in result.request.opinions if opinion.verdict is not None]
    return reasons + [f"{one.decider} says {one.verdict}: {one.reason or one.failed or '-'}" for one in said]


def _rule(rule: RuleRef) -> str:
    place = f"{rule.file}:{rule.line}" if rule.file and rule.line else rule.file or rule.layer
    return f"rule `{rule.text}`" + (f" ({place})" if place else "")


def event_words(event: Event | NewerEvent) -> str:
    """Return an event as one line that names the request, the grant or the client."""
    if isinstance(event, NewerEvent):
        return "an event of a newer version of this software"
    words: Callable[[Any], str] = _WORDS[type(event)]
    return words(event)


def _opened(event: SessionOpened) -> str:
    return f"project {event.project or '-'}, agent {event.agent or '-'}, rules of {event.policy_source or '-'}"


def _asked(event: Asked) -> str:
    what = revealed(describe_asked(event).in_line(None))
    deadline = f", {event.tier} {format_duration(event.duration_ms)}" if event.tier else ""
    folder = f" in `{revealed(event.detail.cwd)}`" if event.detail and event.detail.cwd else ""
    return f"{event.request_id} {event.permission} {what}{folder}: {event.verdict}{deadline}"


def _replied(event: Replied) -> str:
    cause = f", because of {event.cause.request_id or event.cause.grant_id}" if event.cause else ""
    message = f": {event.detail.message}" if event.detail and event.detail.message else ""
    told = f", told, not seen: answered at {event.told}" if event.told else ""
    return f"{event.request_id} {event.reply}, {event.outcome}{told}{cause}{message}"


def _granted(event: Granted) -> str:
    pattern = event.detail.pattern if event.detail else "-"
    return f"{event.grant_id} {event.permission} `{pattern}` for the {event.scope}{_lasting(event.expires_in_ms)}"


def _lasting(ms: int | None) -> str:
    return "" if ms is None else f", for {format_duration(ms)}"


def _because(event: Revoked | Cancelled | SessionClosed) -> str:
    return f": {event.detail.reason}" if event.detail and event.detail.reason else ""


_WORDS: Final[dict[type, Callable[[Any], str]]] = {
    SessionOpened: _opened,
    PolicyChanged: lambda event: f"rules of {event.policy_source or '-'}, digest {event.policy_digest[:12]}",
    Asked: _asked,
    Reopened: lambda event: f"{event.request_id} {event.verdict}",
    Replied: _replied,
    Granted: _granted,
    Revoked: lambda event: f"{event.grant_id}{_because(event)}",
    DeadlineMoved: lambda event: f"{event.request_id} {event.tier}, {format_duration(event.duration_ms)}",
    Expired: lambda event: f"{event.request_id} after {format_duration(event.duration_ms)} ({event.tier})",
    Cancelled: lambda event: f"{event.request_id} {event.cause}{_because(event)}",
    ClientConnected: lambda event: f"{event.client_id} ({event.name})",
    ClientDisconnected: lambda event: f"{event.client_id} ({event.cause})",
    LockTaken: lambda event: event.client_id,
    LockRequested: lambda event: f"{event.client_id}, passes in {format_duration(event.duration_ms)}",
    LockPassed: lambda event: f"{event.holder} to {event.to or 'nobody'} ({event.cause})",
    Notification: lambda event: (
        f"{event.request_id} {f'to {event.person} ' if event.person else ''}by {event.service}: {event.result}"
    ),
    ToolFinished: lambda event: f"{event.request_id or event.call_id or '-'} {'ok' if event.ok else 'failed'}",
    LogRegressed: lambda event: f"{event.seen_id} had been seen, {event.found_id} was found",
    Imported: lambda event: f"{event.versions} events from a file, {event.in_force_count} grants in force by them",
    SessionClosed: lambda event: f"closed{_because(event)}",
}
