"""Durations and results in words, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ledger.client.results import Result
from ledger.core.events import Cause
from ledger.core.times import format_time
from ledger.policy import RuleRef
from ledger.session.texts import answerer, decider_of, describe_settled, together
from ledger.session.would_run import quoted, would_run
from ledger.session.would_run.members import one_line
from workers.presentation.labels import (
    ALTHOUGH,
    DEADLINE_PASSED,
    FOLDER,
    NO_DEADLINE,
    NOBODY_ANSWERED,
    OUTCOMES,
    UNFROZEN,
    WAITING,
    WHY,
)
from workers.presentation.text import revealed


def outcome_words(result: Result, name: str | None) -> str:
    """Return the outcome in one line for the person of this name (None: for anybody).

    For example `Allowed by you (once)`, `Denied by rule` or `Expired: nobody answered in time`. But for names it has no
    words of people or agents, because messages to devices carry it.
    """
    settled = result.settled
    if settled is None:
        return WAITING
    word = OUTCOMES[settled.outcome]
    decider = decider_of(settled)
    if decider is not None:
        return f"{word} by {decider}"
    if settled.outcome == "expired":
        return f"{word}: {NOBODY_ANSWERED}"
    if settled.outcome == "cancelled":
        return word
    if settled.cause is not None and settled.cause.kind == "unfrozen":
        return f"{word} {UNFROZEN}"
    who = together(["you" if one == name else one for one in settled.approvers])
    if not who:
        who = "you" if settled.by.name == name and settled.told is None else answerer(settled.by.name, settled.told)
    if settled.outcome == "denied":
        return f"{word} {ALTHOUGH} {who} answered {settled.reply}"
    return f"{word} by {who}" + (f" ({settled.reply})" if settled.outcome == "allowed" else "")


_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def about(ms: int) -> str:
    """Return a duration in its largest unit, rounded down: `6d`, `59s`; at least `0s`."""
    for unit, size in _UNITS:
        if ms >= size:
            return f"{ms // size}{unit}"
    return "0s"


def time_left(deadline_ms: int | None, now_ms: int, then: str = "") -> str:
    """Return the time until a deadline, with `then` behind it; the same words wherever there is none, or it has passed."""
    if deadline_ms is None:
        return NO_DEADLINE
    return f"{about(deadline_ms - now_ms)}{then}" if deadline_ms > now_ms else DEADLINE_PASSED


def listed(texts: Iterable[str]) -> str:
    """Return several texts for one cell of a table."""
    return quoted(map(one_line, texts), None)


def lets_through(texts: Iterable[str]) -> str:
    """Return the other calls that a rule would let through, as a sentence."""
    told = quoted(texts, None)
    return f"it also lets through: {told}" if told else "it lets through none of the other calls that were tried"


def result_lines(result: Result) -> list[str]:
    """Return the outcome of a request, or its pending state: who, when and why."""
    lines = [headline(result), f"  request  {result.request_id} of session {result.session}, version {result.version}"]
    lines.append(f"  what     {revealed(would_run(result.request).as_call(result.request.permission, None))}")
    lines.append(f"  at       {result.at}")
    if result.request.cwd is not None:
        lines.append(f"  {FOLDER:<7}  {revealed(result.request.cwd)}")
    said = result.settled.message if result.settled is not None and result.outcome == "corrected" else result.message
    if said:
        lines.append(f"  message  {said}")
    # A denial names the rule that denies by now, whoever answered.
    waited = result.settled is None or (result.outcome != "denied" and decider_of(result.settled) is None)
    why = "asked    because" if waited else f"{WHY:<7} "
    lines += [f"  {why} {reason}" for reason in _reasons(result)]
    if result.outcome not in (None, "allowed"):
        lines.append(f"  agent    {result.agent}")
    return lines


def headline(result: Result) -> str:
    """Return the outcome and its author, or until when it is pending."""
    if result.settled is None:
        deadline = result.request.deadline_ms
        until = f"with {NO_DEADLINE}" if deadline is None else f"until {format_time(deadline)} ({result.request.tier})"
        return f"pending {until}"
    return describe_settled(result.settled)


def _reasons(result: Result) -> list[str]:
    evaluation = result.evaluation
    reasons = [rule_text(rule) for rule in evaluation.rules] if evaluation else []
    if evaluation and evaluation.reason:
        reasons.append(evaluation.reason)
    if result.settled and result.settled.cause:
        reasons.append(f"it followed from {_cause(result.settled.cause)}")
    said = [opinion for opinion in result.request.opinions if opinion.verdict is not None]
    return reasons + [f"{one.decider} says {one.verdict}: {one.reason or one.failed or '-'}" for one in said]


def _cause(cause: Cause) -> str:
    match cause.kind:
        case "cascade":
            return f"the answer to {cause.request_id}"
        case "grant":
            return f"grant {cause.grant_id}"
        case "unfrozen":
            return "the end of a freeze, which had held it back"


def rule_text(rule: RuleRef) -> str:
    """Return a rule with the place where it stands."""
    return f"rule `{rule.text}`" + (f" ({rule.place})" if rule.place else "")
