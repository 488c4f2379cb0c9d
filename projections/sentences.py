"""Events as sentences for a session's timeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ledger.core.codec import NewerEvent
from ledger.core.durations import spell_duration
from ledger.core.events import (
    Asked,
    Cancelled,
    ClientConnected,
    ClientDisconnected,
    DeadlineMoved,
    Expired,
    Granted,
    Imported,
    LinkKeyReplaced,
    LockPassed,
    LockRequested,
    LockTaken,
    LogRegressed,
    Notification,
    PasskeyRegistered,
    PasskeyRemoved,
    PasskeyUsed,
    PolicyChanged,
    Reopened,
    Replied,
    Revoked,
    SessionClosed,
    SessionOpened,
    TokenCreated,
    TokenRedeemed,
    TokenRevoked,
    ToolFinished,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.session.state import SessionState
from ledger.session.texts import answerer
from ledger.session.would_run import LINE_CHARS, WouldRun, cut, describe_asked, quoted, would_run

QUOTED_CHARS: Final = LINE_CHARS
"""Characters shown of one quoted command, pattern or message; the log has the whole."""


def sentence_of(recorded: Recorded, before: SessionState) -> str:
    """Return one sentence that begins with the actor; `before` is the fold before the event."""
    event = recorded.event
    if isinstance(event, NewerEvent):
        return "an event of a newer version of this software"
    words: Callable[[Any, str, SessionState], str] = _SENTENCES[type(event)]
    return words(event, recorded.actor.name, before)


def _said(text: str | None) -> str:
    return "" if not text else f": {cut(text, QUOTED_CHARS)}"


def _for(ms: int | None) -> str:
    return "without a deadline" if ms is None else f"for {spell_duration(ms)}"


def _what(before: SessionState, request_id: str) -> str:
    """Return the call of a request in words."""
    request = before.find(request_id)
    if request is None:
        return f"request {request_id}"
    return _call(request.permission, would_run(request))


def _call(permission: str, what: WouldRun) -> str:
    return permission if what.texts == (permission,) else f"{permission} {what.in_line(QUOTED_CHARS)}"


def _opened(event: SessionOpened, who: str, before: SessionState) -> str:
    project = f" in project {event.project}" if event.project else ""
    agent = f" for {event.agent}" if event.agent else ""
    return f"{who} opened the session{project}{agent}"


def _policy_changed(event: PolicyChanged, who: str, before: SessionState) -> str:
    return f"{who} changed the rules or settings of the session"


def _asked(event: Asked, who: str, before: SessionState) -> str:
    call = _call(event.permission, describe_asked(event))
    if event.detail and event.detail.cwd:
        call += f" in {quoted([event.detail.cwd])}"
    if event.verdict is Verdict.ALLOW:
        return f"{who} asked for {call}: allowed" + (" by a grant" if event.grants else " by the rules")
    if event.verdict is Verdict.DENY:
        return f"{who} asked for {call}: denied"
    return f"{who} asked for {call}: waits {_for(event.duration_ms)} ({event.tier or 'unattended'})"


def _reopened(event: Reopened, who: str, before: SessionState) -> str:
    now = "denied" if event.verdict is Verdict.DENY else f"waits {_for(event.duration_ms)}"
    return f"the project's grants had changed: {_what(before, event.request_id)} is not allowed after all, {now}"


def _replied(event: Replied, who: str, before: SessionState) -> str:
    who = answerer(who, event.told)
    what = _what(before, event.request_id)
    if event.cause is not None and event.cause.kind == "grant":
        stopped = ", but the rules of that moment deny it" if event.outcome == "denied" else ""
        return f"a grant now allows {what}{stopped}"
    follows = f", following {event.cause.request_id}" if event.cause else ""
    if event.outcome == "allowed":
        detail = event.detail.patterns if event.detail else ()
        remembered = f", remembered for the {event.scope}: {quoted(detail)}" if event.scope and detail else ""
        return f"{who} allowed {what} ({event.reply}{follows}){remembered}"
    if event.outcome == "denied":
        return f"{who} allowed {what} ({event.reply}{follows}), but the rules of that moment deny it"
    said = _said(event.detail.message if event.detail else None)
    return f"{who} rejected {what}{follows}{said}"


def _granted(event: Granted, who: str, before: SessionState) -> str:
    lasting = "" if event.expires_in_ms is None else f" {_for(event.expires_in_ms)}"
    pattern = quoted([event.detail.pattern]) if event.detail else ""
    return f"{who} granted {event.permission} {pattern} to the {event.scope}{lasting}"


def _revoked(event: Revoked, who: str, before: SessionState) -> str:
    grant = before.grants.get(event.grant_id)
    what = event.grant_id if grant is None else f"{grant.permission} {quoted([grant.pattern])}"
    return f"{who} revoked the grant of {what}{_said(event.detail.reason if event.detail else None)}"


def _moved(event: DeadlineMoved, who: str, before: SessionState) -> str:
    return f"nobody is there any more: {_what(before, event.request_id)} waits {_for(event.duration_ms)}"


def _expired(event: Expired, who: str, before: SessionState) -> str:
    return f"nobody answered {_what(before, event.request_id)} in {spell_duration(event.duration_ms)}: it expired"


_CAUSES: Final = {
    "asker_gave_up": "the agent gave up waiting",
    "asker_died": "the agent that asked is gone",
    "withdrawn": "it was withdrawn",
    "session_closed": "the session was closed",
    "token_revoked": "the token of the agent that asked was revoked or has expired",
}


def _cancelled(event: Cancelled, who: str, before: SessionState) -> str:
    said = _said(event.detail.reason if event.detail else None)
    return f"{_what(before, event.request_id)} was cancelled: {_CAUSES[event.cause]}{said}"


def _disconnected(event: ClientDisconnected, who: str, before: SessionState) -> str:
    client = before.clients.get(event.client_id)
    name = client.name if client else event.client_id
    return f"{name} left" if event.cause == "left" else f"{name} was not heard of any more"


def _lock_passed(event: LockPassed, who: str, before: SessionState) -> str:
    return "nobody holds the input lock any more" if event.to is None else f"the input lock passed to {event.to}"


def _notified(event: Notification, who: str, before: SessionState) -> str:
    if event.person is not None:
        of = f"of {_what(before, event.request_id)} by {event.service}"
        ending = f"how {_what(before, event.request_id)} ended by {event.service}"
        told = {
            "sent": f"{event.person} was told {of}",
            "failed": f"{event.person} could not be told {ending if event.step is None else of}",
            "withdrawn": f"{event.person} was told {ending}",
        }
        return told[event.result]
    words = {"sent": "was sent", "failed": "could not be sent", "withdrawn": "was withdrawn"}
    return f"a notification by {event.service} about {_what(before, event.request_id)} {words[event.result]}"


def _finished(event: ToolFinished, who: str, before: SessionState) -> str:
    what = _what(before, event.request_id) if event.request_id else f"tool call {event.call_id or '-'}"
    other = ", but not as it had been asked" if event.as_asked is False else ""
    return f"{what} {'ran' if event.ok else 'failed'}{other}"


def _closed(event: SessionClosed, who: str, before: SessionState) -> str:
    return f"{who} closed the session{_said(event.detail.reason if event.detail else None)}"


_SENTENCES: Final[dict[type, Callable[[Any, str, SessionState], str]]] = {
    SessionOpened: _opened,
    PolicyChanged: _policy_changed,
    Asked: _asked,
    Reopened: _reopened,
    Replied: _replied,
    Granted: _granted,
    Revoked: _revoked,
    DeadlineMoved: _moved,
    Expired: _expired,
    Cancelled: _cancelled,
    ClientConnected: lambda event, _who, _before: f"{event.name} connected",
    ClientDisconnected: _disconnected,
    LockTaken: lambda _event, who, _before: f"{who} took the input lock",
    LockRequested: lambda event, who, _before: (
        f"{who} asked for the input lock, in {spell_duration(event.duration_ms)}"
    ),
    LockPassed: _lock_passed,
    Notification: _notified,
    ToolFinished: _finished,
    LogRegressed: lambda event, _who, _before: f"the server lost events: {event.seen_id} had been seen before",
    Imported: lambda event, who, _before: (
        f"{who} imported the {event.versions} events before this from a file"
        f"{f', with {event.in_force_count} grants in force' if event.in_force_count else ''}"
    ),
    SessionClosed: _closed,
    TokenCreated: lambda event, who, _before: f"{who} made a token for {event.name}, role {event.role}",
    TokenRedeemed: lambda event, who, _before: f"{who} signed in with {event.token_id}",
    PasskeyRegistered: lambda event, who, _before: f"{who} registered a passkey of {event.person}",
    PasskeyRemoved: lambda event, who, _before: (
        f"{who} removed the passkey {event.credential_id}{_said(event.detail.reason if event.detail else None)}"
    ),
    PasskeyUsed: lambda event, who, _before: f"{who} signed with the passkey {event.credential_id}",
    LinkKeyReplaced: lambda event, who, _before: (
        f"{who} ended all answer links{_said(event.detail.reason if event.detail else None)}"
    ),
    TokenRevoked: lambda event, who, _before: (
        f"{who} revoked {event.token_id}{_said(event.detail.reason if event.detail else None)}"
    ),
}
