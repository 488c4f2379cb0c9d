"""The outcome of a request in words, as the answer page, the messages and the inbox say it.

`inbox/static/js/outcomes.js` has the same for the inbox; a test compares them.
"""

from __future__ import annotations

from ledger.client.results import Result
from ledger.session.texts import answerer, decider_of, together
from workers.presentation.labels import (
    ALTHOUGH,
    NOBODY_ANSWERED,
    OUTCOMES,
    UNFROZEN,
    WAITING,
)


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
