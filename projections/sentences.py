"""Events as sentences: for timelines, the command line and the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ledger.core import events
from ledger.core.characters import person_key
from ledger.core.codec import NewerEvent
from ledger.core.event_shapes import Notification
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.core.times import SECOND_MS, format_duration, format_time
from ledger.log.history import HistoryCache
from ledger.session.approvals import counting
from ledger.session.state import SessionState
from ledger.session.texts import CANCEL_CAUSES, answerer
from ledger.session.would_run import LINE_CHARS, WouldRun, cut, describe_asked, quoted, would_run
from ledger.session.would_run.members import one_line
from ledger.stores.port import StreamKey

_NAMED_MAX: Final = 10
"""Versions that a sentence names; the rest are counted."""


def sentence_of(recorded: Recorded, before: SessionState, limit_chars: int | None = LINE_CHARS) -> str:
    """Return one sentence for an event, beginning with the actor if an agent or a person acted.

    `before` is the state before the event. Each quoted command, pattern, rule or message is cut to `limit_chars`.
    """
    event = recorded.event
    if isinstance(event, NewerEvent):
        return "an event of a newer version of this software"
    sentence = _SENTENCES[type(event)](event, _Context(recorded.actor.name, before, limit_chars))
    return f"{sentence} (content redacted)" if recorded.redacted else sentence


class _Context(NamedTuple):
    """The actor's name, the state before the event, and the limit on each quoted text."""

    who: str
    before: SessionState
    limit_chars: int | None

    def quoted(self, *texts: str) -> str:
        return quoted(map(one_line, texts), self.limit_chars)

    def said(self, text: str | None) -> str:
        return "" if not text else f": {cut(one_line(text), self.limit_chars)}"

    def reason(
        self,
        event: events.Revoked
        | events.Cancelled
        | events.SessionClosed
        | events.ClaimReleased
        | events.Redacted
        | events.PasskeyRemoved
        | events.PushEnded
        | events.LinkKeyReplaced
        | events.TokenRevoked
        | events.Frozen
        | events.Unfrozen
        | events.HoldPlaced
        | events.HoldLifted,
    ) -> str:
        return self.said(event.detail.reason if event.detail else None)

    def what(self, request_id: str) -> str:
        """Return the call of a request in words."""
        request = self.before.find(request_id)
        if request is None:
            return f"request {request_id}"
        return self.call(request.permission, would_run(request))

    def call(self, permission: str, what: WouldRun) -> str:
        return what.as_call(permission, self.limit_chars)

    def client(self, client_id: str) -> str:
        client = self.before.clients.get(client_id)
        return client.name if client else client_id


def _for(ms: int | None) -> str:
    return "without a deadline" if ms is None else f"for {format_duration(ms)}"


def _opened(event: events.SessionOpened, at: _Context) -> str:
    project = f" in project {event.project}" if event.project else ""
    agent = f" for {event.agent}" if event.agent else ""
    rules = f", with the rules of {at.quoted(event.policy_source)}" if event.policy_source else ""
    return f"{at.who} opened the session{project}{agent}{rules}"


def _policy_changed(event: events.PolicyChanged, at: _Context) -> str:
    if event.policy_digest == at.before.policy_digest:
        return f"{at.who} changed the settings of the session"
    rules = f" to those of {at.quoted(event.policy_source)}" if event.policy_source else ""
    return f"{at.who} changed the rules of the session{rules}, digest {event.policy_digest[:12]}"


def _asked(event: events.Asked, at: _Context) -> str:
    call = at.call(event.permission, describe_asked(event))
    if event.detail and event.detail.cwd:
        call += f" in {at.quoted(event.detail.cwd)}"
    waits = f", waits {_for(event.duration_ms)} ({event.tier or 'unattended'})" if event.verdict is Verdict.ASK else ""
    return f"{at.who} asked for {call}: {_VERDICTS[event.verdict]}{_why(event, at)}{waits}"


_VERDICTS: Final = {Verdict.ALLOW: "allowed", Verdict.ASK: "needs an answer", Verdict.DENY: "denied"}


def _why(event: events.Asked, at: _Context) -> str:
    """Return the grants, the decider after the rules, the rules, or the reason behind a verdict."""
    if event.verdict is Verdict.ALLOW and event.grants:
        grant = at.before.grants.get(event.grants[0])
        if grant is None:
            return " by a grant of the project"
        return f" by {grant.by.name}'s grant of {grant.permission} {at.quoted(grant.pattern)}"
    detail = event.detail
    evaluation = detail.evaluation if detail else None
    if detail is None or evaluation is None:
        return ""
    if evaluation.verdict is not event.verdict:
        deciders = [one.decider for one in detail.opinions if one.verdict is event.verdict]
        return f" by {', '.join(deciders)}" if deciders else ""
    if evaluation.rules:
        rules = f"rule {at.quoted(*dict.fromkeys(one.text for one in evaluation.rules))}"
        return f" ({rules})" if event.verdict is Verdict.ASK else f" by {rules}"
    return f" ({cut(one_line(evaluation.reason), at.limit_chars)})" if evaluation.reason else ""


def _reopened(event: events.Reopened, at: _Context) -> str:
    now = "denied" if event.verdict is Verdict.DENY else f"waits {_for(event.duration_ms)}"
    if event.cause is None:
        return f"the project's grants changed: {at.what(event.request_id)} is no longer allowed, {now}"
    reason = event.detail.reason if event.detail else None
    round_ = f" in round {event.round}" if event.verdict is Verdict.ASK else ""
    return f"{at.what(event.request_id)} is no longer allowed{at.said(reason)}; {now}{round_}"


def _agreed(event: events.Agreed, at: _Context) -> str:
    request = at.before.pending.get(event.request_id)
    others = () if request is None else counting(request, request.demands)
    number = len([one for one in others if person_key(one.by.name) != person_key(at.who)]) + 1
    said = at.said(event.detail.message if event.detail else None)
    return f"{at.who} approved {at.what(event.request_id)}, {number} of {event.needed} people{said}"


def _end_unknown(event: events.EndUnknown, at: _Context) -> str:
    return f"{at.what(event.request_id)} may have run: {_END_CAUSES[event.cause]} without a recorded end"


_END_CAUSES: Final[Mapping[events.EndCause, str]] = {
    "session_closed": "the session was closed",
    "agent_ended": "the agent ended",
    "claim_timeout": "its time to run passed",
}


def _replied(event: events.Replied, at: _Context) -> str:
    who = answerer(at.who, event.told)
    what = at.what(event.request_id)
    denied = ", but the current rules deny it" if event.outcome == "denied" else ""
    if event.cause is not None and event.cause.kind == "grant":
        return f"a grant now allows {what}{denied}"
    if event.cause is not None and event.cause.kind == "unfrozen":
        is_denied = event.outcome == "denied"
        return f"the freeze ended: {what} is {'denied by the current rules' if is_denied else 'allowed'}"
    follows = f", following {event.cause.request_id}" if event.cause else ""
    detail = event.detail
    if len(event.approvers) > 1:
        who = f"{', '.join(event.approvers[:-1])} and {who}"
    if event.outcome in ("allowed", "denied"):
        patterns = detail.patterns if detail else ()
        kept = (
            f", remembered for the {event.scope}{_bounded(event.bounds, wider=bool(event.wider))}: {at.quoted(*patterns)}"
            if event.scope and patterns
            else ""
        )
        return f"{who} allowed {what} ({event.reply}{follows}){denied}{kept}"
    return f"{who} rejected {what}{follows}{at.said(detail.message if detail else None)}"


def _bounded(bounds: events.GrantBounds | None, *, wider: bool) -> str:
    lasting = "" if bounds is None or bounds.expires_in_ms is None else f" {_for(bounds.expires_in_ms)}"
    uses = "" if bounds is None or bounds.uses is None else f", for {bounds.uses} call{'s' if bounds.uses > 1 else ''}"
    return f"{lasting}{uses}{', wider than offered' if wider else ''}"


def _use_taken(event: events.UseTaken, at: _Context) -> str:
    return f"request {event.request_id} of session {event.session} took a use of {event.grant_id}"


def _granted(event: events.Granted, at: _Context) -> str:
    bounded = _bounded(events.GrantBounds(event.expires_in_ms, event.uses), wider=event.wider)
    pattern = f" {at.quoted(event.detail.pattern)}" if event.detail else ""
    reason = at.said(event.detail.reason if event.detail else None)
    return f"{at.who} granted {event.permission}{pattern} to the {event.scope}{bounded}{reason}"


def _revoked(event: events.Revoked, at: _Context) -> str:
    grant = at.before.grants.get(event.grant_id)
    what = event.grant_id if grant is None else f"{grant.permission} {at.quoted(grant.pattern)}"
    return f"{at.who} revoked the grant of {what}{at.reason(event)}"


def _notified(event: Notification, at: _Context) -> str:
    what = at.what(event.request_id)
    if event.person is None:
        words = {"sent": "was sent", "failed": "could not be sent", "withdrawn": "was withdrawn"}
        return f"a notification by {event.service} about {what} {words[event.result]}"
    is_outcome = event.result == "withdrawn" or (event.result == "failed" and event.step is None)
    was_told = "could not be told" if event.result == "failed" else "was told"
    return f"{event.person} {was_told} {f'how {what} ended' if is_outcome else f'of {what}'} by {event.service}"


def _finished(event: events.ToolFinished, at: _Context) -> str:
    what = at.what(event.request_id) if event.request_id else f"tool call {event.call_id or '-'}"
    other = ", but not as asked" if event.as_asked is False else ""
    return f"{what} {'ran' if event.ok else 'failed'}{other}"


def _reach(event: events.Frozen | events.Unfrozen) -> str:
    return "everything" if event.project is None else f"project {event.project}"


def _push_ended(event: events.PushEnded, at: _Context) -> str:
    if event.cause == "gone":
        return f"the push service does not know device {event.device_id} any more"
    return f"{at.who} ended push messages on device {event.device_id}{at.reason(event)}"


def _held(event: events.HoldPlaced | events.HoldLifted) -> str:
    return f"project {event.project}" if event.session is None else f"session {event.session}"


def _redacted(event: events.Redacted, at: _Context) -> str:
    named = ", ".join(map(str, event.versions[:_NAMED_MAX]))
    more = f" and {len(event.versions) - _NAMED_MAX} more" if len(event.versions) > _NAMED_MAX else ""
    noun = "version" if len(event.versions) == 1 else "versions"
    return f"{at.who} redacted the content of {noun} {named}{more}{at.reason(event)}"


_EXTENDED: Final = {"typing": " by writing on it", "open_card": " by reading it", "by_hand": ""}


def _moved(event: events.DeadlineMoved, at: _Context) -> str:
    if event.reason is not None:
        more = _for(None if event.duration_ms is None else -(-event.duration_ms // SECOND_MS) * SECOND_MS)
        return f"{at.who} extended {at.what(event.request_id)}{_EXTENDED[event.reason]}: it waits {more} more"
    # None is unknown presence.
    nobody = "no client is known to be connected" if event.present is None else "no client is connected any more"
    return f"{nobody}: {at.what(event.request_id)} waits {_for(event.duration_ms)} ({event.tier})"


def _expired(event: events.Expired, at: _Context) -> str:
    there = ", ".join(dict.fromkeys(one.name for one in event.present or ()))
    connected = f", connected: {there}" if there else ""
    return f"nobody answered {at.what(event.request_id)} in {format_duration(event.duration_ms)}: it expired{connected}"


_SENTENCES: Final[dict[type, Callable[[Any, _Context], str]]] = {
    events.SessionOpened: _opened,
    events.PolicyChanged: _policy_changed,
    events.RulesStored: lambda event, at: f"{at.who} stored rules of the dialect {event.dialect}",
    events.Asked: _asked,
    events.Reopened: _reopened,
    events.Agreed: _agreed,
    events.Replied: _replied,
    events.Granted: _granted,
    events.UseTaken: _use_taken,
    events.Revoked: _revoked,
    events.DeadlineMoved: _moved,
    events.Expired: _expired,
    events.Cancelled: lambda event, at: (
        f"{at.what(event.request_id)} was cancelled: {CANCEL_CAUSES[event.cause]}{at.reason(event)}"
    ),
    events.ClientConnected: lambda event, _: f"{event.name} connected",
    events.ClientDisconnected: lambda event, at: (
        f"{at.client(event.client_id)} {'left' if event.cause == 'left' else 'lost connection'}"
    ),
    events.LockTaken: lambda _, at: f"{at.who} took the input lock",
    events.LockRequested: lambda event, at: (
        f"{at.who} requested the input lock, which passes in {format_duration(event.duration_ms)}"
    ),
    events.LockPassed: lambda event, at: (
        f"the input lock passed from {at.client(event.holder)} to {at.client(event.to) if event.to else 'nobody'}"
    ),
    Notification: _notified,
    events.ToolFinished: _finished,
    events.Claimed: lambda event, at: f"{event.runner} claimed {at.what(event.request_id)} and may run it",
    events.ClaimReleased: lambda event, at: (
        f"{at.who} released the claim of {at.what(event.request_id)}, which may be claimed again{at.reason(event)}"
    ),
    events.EndUnknown: _end_unknown,
    events.LogRegressed: lambda event, _: (
        f"the server lost events: {event.seen_id} had been read, {event.found_id} was found"
    ),
    events.Imported: lambda event, at: (
        f"{at.who} imported the {event.versions} events before this from a file"
        f"{f', with {event.in_force_count} grants in force' if event.in_force_count else ''}"
    ),
    events.Redacted: _redacted,
    events.SessionClosed: lambda event, at: f"{at.who} closed the session{at.reason(event)}",
    events.TokenCreated: lambda event, at: f"{at.who} created a token for {event.name}, role {event.role}",
    events.TokenRedeemed: lambda event, at: f"{at.who} signed in with {event.token_id}",
    events.PasskeyRegistered: lambda event, at: f"{at.who} registered a passkey of {event.person}",
    events.PasskeyRemoved: lambda event, at: f"{at.who} removed the passkey {event.credential_id}{at.reason(event)}",
    events.PasskeyUsed: lambda event, at: f"{at.who} signed with the passkey {event.credential_id}",
    events.PushSubscribed: lambda event, at: (
        f"{at.who} enabled push messages for {event.person} on device {event.device_id}"
    ),
    events.PushUsed: lambda event, _: f"device {event.device_id} was sent a push message",
    events.PushEnded: _push_ended,
    events.NotificationsChosen: lambda event, at: f"{at.who} changed the notifications of {event.person}",
    events.ServicesNamed: lambda event, _: f"a notifier named the services of {len(event.services)} people",
    events.LinkKeyReplaced: lambda event, at: f"{at.who} ended all answer links{at.reason(event)}",
    events.Frozen: lambda event, at: f"{at.who} froze {_reach(event)}{at.reason(event)}",
    events.Unfrozen: lambda event, at: f"{at.who} ended the freeze of {_reach(event)}{at.reason(event)}",
    events.HoldPlaced: lambda event, at: f"{at.who} placed a legal hold on {_held(event)}{at.reason(event)}",
    events.HoldLifted: lambda event, at: f"{at.who} lifted the legal hold of {_held(event)}{at.reason(event)}",
    events.TokenRevoked: lambda event, at: f"{at.who} revoked {event.token_id}{at.reason(event)}",
}


async def timeline_page(history: HistoryCache, session: str, after: int, count: int) -> list[dict[str, Any]]:
    """Return the lines of a session's events after a version, in order; at most `count`. Raises DamageError."""
    passed = await history.passed(StreamKey("session", session), after, count)
    return [line_of(one.recorded, one.before) for one in passed]


def line_of(recorded: Recorded, before: SessionState) -> dict[str, Any]:
    """Return the line of an event; `before` is the state before it."""
    event, actor = recorded.event, recorded.actor
    return {
        "version": recorded.version,
        "at": format_time(recorded.ms),
        "type": event.event_type if isinstance(event, NewerEvent) else events.event_type(event),
        "actor": {
            "kind": actor.kind,
            "name": actor.name,
            "via": actor.via,
            **({} if actor.made_by is None else {"made_by": actor.made_by}),
        },
        "text": sentence_of(recorded, before),
        "request_id": getattr(event, "request_id", None),
    }
