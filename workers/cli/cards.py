"""A pending request as a card in lines: who asks, what would run, why it asks, what an answer would remember."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ledger.core.times import format_time
from ledger.policy import RuleRef
from ledger.session.approvals import approvals_of
from ledger.session.demands import demanded
from ledger.session.state import Request
from workers.cli.description import description_lines
from workers.presentation.labels import (
    APPROVED,
    DEMANDED,
    NO_DEADLINE,
    ONLY_ONCE,
    PENDING_AGAIN,
    STILL_ASKS,
    TIME_LEFT,
    WAITS_FOR,
    WHY,
)
from workers.presentation.text import revealed
from workers.presentation.words import rule_text

if TYPE_CHECKING:
    from ledger import Pending


def card_lines(one: Pending) -> list[str]:
    """Return the whole card; every misleading character of the agent's is written as its escape."""
    request = one.request
    lines = [f"request {request.request_id} of session {one.session}: {revealed(request.permission)}"]
    return [*lines, *(f"  {line}" for line in (*description_lines(request), *_facts(request)))]


def _facts(request: Request) -> Iterator[str]:
    yield from (f"{WHY}: {reason}" for reason in _reasons(request))
    yield from (f"{DEMANDED}: {revealed(one)}" for one in demanded(request))
    approvals = approvals_of(request)
    if approvals is not None:
        if approvals.given:
            given = ", ".join(f"{revealed(one.by.name)} at {format_time(one.at_ms)}" for one in approvals.given)
            yield f"{APPROVED}: by {given}; {WAITS_FOR} {revealed(approvals.waits_for)}"
    elif not request.always:
        yield ONLY_ONCE
    if request.still_asked:
        yield f"{STILL_ASKS}: {revealed('; '.join(request.still_asked))}"
    deadline = request.deadline_ms
    until = NO_DEADLINE if deadline is None else f"until {format_time(deadline)} ({request.tier})"
    yield f"asked at: {format_time(request.asked_ms)}"
    yield f"{TIME_LEFT}: {until}"
    if request.round > 1:
        yield f"{PENDING_AGAIN}: {revealed(request.reopened_reason or '-')} (round {request.round})"


def _reasons(request: Request) -> list[str]:
    evaluation = request.evaluation
    if evaluation is None:
        return []
    rules: tuple[RuleRef, ...] = tuple(evaluation.rules)
    return [*map(rule_text, rules), *([evaluation.reason] if evaluation.reason else [])]
