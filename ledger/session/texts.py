"""Messages to the agent, each with its source. Those of a reject are the dialect's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ledger.core.events import CancelCause
from ledger.core.policy import PolicySource, Verdict
from ledger.core.times import spell_duration
from ledger.policy.dialects import dialect_of
from ledger.session.state import Settled

CANCEL_CAUSES: Final[Mapping[CancelCause, str]] = {
    "asker_gave_up": "the agent gave up waiting",
    "asker_died": "the agent that asked is gone",
    "withdrawn": "it was withdrawn",
    "session_closed": "the session was closed",
    "token_revoked": "the token of the agent that asked was revoked or has expired",
}


def message_of(settled: Settled, source: PolicySource) -> str | None:
    """Return the message to the agent; None for an allow."""
    match settled.outcome:
        case "allowed":
            return None
        case "denied":
            return _denied(settled)
        case "rejected":
            return dialect_of(source).answers.rejected
        case "corrected":
            return dialect_of(source).answers.corrected(settled.message or "", source)
        case "expired":
            # `betcode.md`, the two tiers, with the configured duration.
            ended = "timed out" if settled.request.tier == "attended" else "expired"
            return f"Permission request {ended} after {spell_duration(settled.request.duration_ms or 0)}."
        case "cancelled":
            reason = f" ({settled.message})" if settled.message else ""
            return f"Permission request cancelled: {CANCEL_CAUSES[settled.cancel_cause or 'withdrawn']}{reason}"


def _denied(settled: Settled) -> str:
    """Return the message of a deny: that of the rules' dialect, or the name of the decider."""
    evaluation = settled.request.evaluation
    if evaluation is not None and evaluation.verdict is Verdict.DENY:
        return evaluation.message or "Permission denied by rule"
    for opinion in settled.request.opinions:
        if opinion.verdict is Verdict.DENY:
            return f"Permission denied by {opinion.decider}: {opinion.reason or opinion.failed or 'no reason given'}"
    return "Permission denied"


def answerer(name: str, told: str | None) -> str:
    """Return the author of an answer; an answer reported by the agent's side is marked as such."""
    return name if told is None else f"{name} (told, not seen: answered at {told})"


def describe_settled(settled: Settled) -> str:
    """Return an outcome and its author: `allowed by ann (always)`, `denied by rule`, `expired`."""
    if settled.outcome == "expired":
        return "expired"
    if settled.cause is not None and settled.cause.kind == "unfrozen":
        return f"{settled.outcome} by the rules when a freeze ended"
    decider = decider_of(settled)
    if decider is not None:
        return f"{settled.outcome} by {decider}"
    who = together(settled.approvers) or answerer(settled.by.name, settled.told)
    if settled.outcome == "denied":
        return f"denied by the current rules, although {who} answered {settled.reply}"
    if settled.outcome == "corrected":
        return f"rejected by {who} with instructions"
    how = f" ({settled.reply})" if settled.reply else ""
    return f"{settled.outcome} by {who}{how}"


def together(names: Sequence[str]) -> str:
    """Return names in one text: `ann, bob and eve`; empty for none."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


_VERDICTS: Final = {"allowed": Verdict.ALLOW, "denied": Verdict.DENY}


def decider_of(settled: Settled) -> str | None:
    """Return what decided without a person's answer: `rule`, `grant ID`, or the name of a decider after the rules.

    None where a person answered, and where nothing was decided: the request expired, or was cancelled.
    """
    verdict, request = _VERDICTS.get(settled.outcome), settled.request
    if verdict is None or settled.reply is not None:
        return None
    if verdict is Verdict.ALLOW and request.grants:
        return f"grant {', '.join(request.grants)}"
    by_rules = request.evaluation is not None and request.evaluation.verdict is verdict
    deciders = [one.decider for one in request.opinions if one.verdict is verdict]
    return "rule" if by_rules or not deciders else ", ".join(deciders)


TAKES_NO_FEEDBACK: Final = "hears_no_words"
"""The member of a request's metadata by which a bridge declares this."""

NOTE: Final = "the agent will not see these words, because its protocol has no place for them; the log keeps them"


def undelivered_note(metadata: Mapping[str, Any] | None, message: str | None) -> str | None:
    """Return the note for a person who answers with a message; None where the agent gets the message."""
    return NOTE if message and metadata and metadata.get(TAKES_NO_FEEDBACK) is True else None
