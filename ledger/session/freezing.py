"""The decisions within the reach of a freeze: nothing is allowed, and what rules would allow waits or is denied. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.events import Asked, Cause, Opinion, Replied, RepliedDetail
from ledger.core.freezes import FREEZE, Freeze, any_allowing
from ledger.core.grants import StandingGrant
from ledger.core.policy import Verdict
from ledger.core.standing import named
from ledger.policy.demands import asks_several
from ledger.session.approvals import binding, grants_for, signed_verdict
from ledger.session.asks import decide_ask
from ledger.session.commands import Ask, Release, Resume
from ledger.session.decision import Decision, standing_grants, until_expiry
from ledger.session.judging import UsesWantedError, judge_sparingly, taker_of, uses_of, with_opinions, with_uses_left
from ledger.session.releases import released
from ledger.session.state import SessionState, call_of

_UNFROZEN: Final = Cause(kind="unfrozen")


def under_freeze(state: SessionState, command: Any, decided: Decision, freeze: Freeze, now_ms: int) -> Decision:
    """Return the decision of a command within the reach of a freeze, where `decided` is the one without it.

    Raises FrozenError for a command that would allow or claim something.
    """
    if isinstance(command, Ask):
        return _ask(state, command, decided, freeze, now_ms)
    if not any_allowing(decided.events):
        return decided
    if isinstance(command, Release | Resume):
        return Decision()
    raise freeze.error(request_id=getattr(command, "request_id", None), session=state.session_id)


def _ask(state: SessionState, command: Ask, decided: Decision, freeze: Freeze, now_ms: int) -> Decision:
    """Return the decision of an ask: what would be allowed is held back, or denied with `when_frozen` = `deny`."""
    verdict = next((one.verdict for one in decided.events if isinstance(one, Asked)), None)
    denies = state.settings.when_frozen == "deny"
    if verdict is None and any_allowing(decided.events):
        raise freeze.error(request_id=command.request_id, session=state.session_id)
    if verdict in (None, Verdict.DENY) or (verdict is Verdict.ASK and not denies):
        return decided
    opinion = Opinion(FREEZE, Verdict.DENY if denies else Verdict.ASK, freeze.sentence)
    return decide_ask(state, replace(command, opinions=(*command.opinions, opinion)), now_ms)


def decide_resume(state: SessionState, command: Resume, now_ms: int) -> Decision:
    """Judge the requests that a freeze held back again, by the rules and grants of now; a person's stay pending.

    Requests that rest on uses of the project's grants come last: without any other, UsesWantedError names the uses that
    the first of them has to take.
    """
    settled: list[Replied] = []
    used: list[StandingGrant] = []
    spent: Counter[str] = Counter()
    wanted: UsesWantedError | None = None
    for request in state.pending.held():
        taker = taker_of(state, request.request_id)
        standing = with_uses_left(standing_grants(state, command.project, now_ms, taker), taker, spent)
        counting = grants_for(request, standing, command.policy)
        evaluation, grant_ids = judge_sparingly(state, command.policy, call_of(request), taker, counting)
        others = [one for one in request.opinions if one.decider != FREEZE]
        demands = binding(command.policy, request)
        verdict = signed_verdict(with_opinions(evaluation.verdict, others), evaluation.verdict, demands)
        was_allowed = request.evaluation is not None and request.evaluation.verdict is Verdict.ALLOW
        if verdict is Verdict.ALLOW and asks_several(demands) and not was_allowed:
            continue  # its demands stay with it, and people answer it
        if verdict is Verdict.ALLOW:
            lifting = named(counting, grant_ids)
            try:
                uses = uses_of(lifting, taker)
            except UsesWantedError as wants:
                wanted = wanted or wants
                continue
            used += lifting
            spent.update(uses)
            settled.append(released(request, _UNFROZEN, lifting, command, uses))
        elif verdict is Verdict.DENY:
            detail = RepliedDetail(evaluation=evaluation)
            settled.append(
                Replied(request_id=request.request_id, reply="once", outcome="denied", cause=_UNFROZEN, detail=detail)
            )
    if wanted is not None and not settled:
        raise wanted
    return Decision(tuple(settled), until_expiry(used))
