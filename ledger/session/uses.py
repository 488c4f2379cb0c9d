"""The uses of grants with a limit: the grants that a call rests on, and the uses that it takes. Pure.

A call takes one use of each such grant that it rests on, once, when it is allowed. A use of a session's own grant is
taken in the same append as the allow. A use of a project's grant is taken in the project's stream before that: the
decision names it with `UsesWantedError`, the caller takes it with `TakeUse`, and the decision is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from ledger.core.errors import LedgerError
from ledger.core.grants import StandingGrant, TakenUse, Taker, with_use
from ledger.core.policy import Call, Evaluation, Policy, Verdict
from ledger.core.standing import Standing, kept, named
from ledger.masks.masking import Masks
from ledger.session.first import judge
from ledger.session.state import SessionState, use_claim_id

SPARED_COUNT: Final = 16
"""Grants with a limit, at most, that a call is judged without; each costs one more evaluation."""


Judge: TypeAlias = Callable[
    [SessionState, Policy, Call, str, Sequence[StandingGrant]], tuple[Evaluation, frozenset[str]]
]
"""A judgement of a call under some grants: `ledger.session.first.judge`, or one without its recording of facts."""


def judging(masks: Masks | None) -> Judge:
    """Return the judgement of a call whose record gets these masks."""
    return judge if masks is None else partial(judge, masks=masks)


class UsesWantedError(LedgerError):
    """An internal signal, never raised to a caller: uses of these project grants must be taken before the allow."""

    code = "USES_WANTED"

    def __init__(self, taker: Taker, grant_ids: tuple[str, ...]) -> None:
        named = ", ".join(f"`{grant_id}`" for grant_id in grant_ids)
        super().__init__(
            f"request `{taker.request_id}` rests on uses of {named}", session=taker.session, request_id=taker.request_id
        )
        self.taker = taker
        self.grant_ids = grant_ids


def taker_of(state: SessionState, request_id: str, claim_id: str | None = None) -> Taker:
    """Return a request as a taker of uses, under the claim that it has, or the one that it is about to get."""
    request, settled = state.find(request_id), state.settled.get(request_id)
    if request is None:
        return Taker(state.session_id, request_id)
    held = None if settled is None or settled.claim is None else settled.claim.claim_id
    ids = dict.fromkeys(("", *(one for one in (held, claim_id) if one is not None)))
    return Taker(state.session_id, request_id, tuple(use_claim_id(request, one) for one in ids))


def judge_sparingly(
    state: SessionState,
    policy: Policy,
    call: Call,
    taker: Taker,
    standing: Sequence[StandingGrant],
    *,
    judge: Judge = judge,
) -> tuple[Evaluation, frozenset[str]]:
    """Judge a call, and return the ids of the grants that it rests on: as few with a limit of uses as possible."""
    if not standing:
        return judge(state, policy, call, taker.request_id, ())
    free, request_id = unlimited(standing), taker.request_id
    judged = judge(state, policy, call, request_id, free)
    if free is standing or judged[0].verdict is Verdict.ALLOW:
        return judged
    judged = judge(state, policy, call, request_id, standing)
    if judged[0].verdict is not Verdict.ALLOW:
        return judged
    left: Sequence[StandingGrant] = standing
    for grant in _dispensable(standing, judged[1], taker):
        without = kept(left, partial(_is_another, grant))
        again = judge(state, policy, call, request_id, without)
        if again[0].verdict is Verdict.ALLOW:
            left, judged = without, again
    return judged


def _is_another(grant: StandingGrant, one: StandingGrant) -> bool:
    return one is not grant


def _dispensable(standing: Sequence[StandingGrant], used: frozenset[str], taker: Taker) -> list[StandingGrant]:
    """Return the grants with a limit that may not be needed: the newest first, those that the call holds last."""
    limited = [grant for grant in reversed(named(standing, used)) if grant.uses is not None]
    return sorted(limited, key=lambda grant: grant.is_held(taker))[:SPARED_COUNT]


def unlimited(standing: Sequence[StandingGrant]) -> Sequence[StandingGrant]:
    """Return the grants without a limit of uses."""
    is_free = not standing.has_limited if isinstance(standing, Standing) else all(map(_has_no_limit, standing))
    return standing if is_free else kept(standing, _has_no_limit)


def _has_no_limit(grant: StandingGrant) -> bool:
    return grant.uses is None


def sparing(standing: Iterable[StandingGrant], taker: Taker) -> list[StandingGrant]:
    """Return the grants in the order of choice: without a limit of uses, held by the call, any other."""
    return sorted(standing, key=lambda grant: grant.uses is not None and (1 if grant.is_held(taker) else 2))


def at_hand(standing: Iterable[StandingGrant], taker: Taker) -> list[StandingGrant]:
    """Return the grants that may lift a pending call in one append: all but unheld ones of the project with a limit."""
    return [one for one in standing if one.uses is None or one.scope == "session" or one.is_held(taker)]


def recheckable(standing: Sequence[StandingGrant], taker: Taker) -> Sequence[StandingGrant]:
    """Return the grants that an allow may still rest on: no event could record a new use of a session's own grant."""
    return kept(standing, lambda one: one.uses is None or one.scope == "project" or one.is_held(taker))


def uses_of(used: Iterable[StandingGrant], taker: Taker) -> tuple[str, ...]:
    """Return the ids of the grants of which the call takes a use under its last claim id.

    Raises UsesWantedError for grants of the project of which it holds none.
    """
    limited = [grant for grant in used if grant.uses is not None]
    wanted = [one.grant_id for one in limited if one.scope == "project" and not one.is_held(taker)]
    if wanted:
        raise UsesWantedError(taker, tuple(dict.fromkeys(wanted)))
    last = replace(taker, claim_ids=taker.claim_ids[-1:])
    taken = [one for one in limited if (one.is_held(last) if one.scope == "project" else not one.is_held(taker))]
    return tuple(dict.fromkeys(one.grant_id for one in taken))


def with_uses_left(
    standing: Sequence[StandingGrant], taker: Taker, spent: Mapping[str, int]
) -> Sequence[StandingGrant]:
    """Return the grants that are left after calls before in the same append `spent` uses of the session's own ones."""
    return kept(
        standing,
        lambda grant: (
            grant.scope == "project"
            or grant.uses_left is None
            or grant.uses_left > spent.get(grant.grant_id, 0)
            or grant.is_held(taker)
        ),
    )


def with_uses(
    standing: Sequence[StandingGrant], used: Iterable[StandingGrant], taker: Taker, now_ms: int
) -> Sequence[StandingGrant]:
    """Return the grants that are left after a call took its uses, for the next call of the same append."""
    ids = {grant.grant_id for grant in used if grant.uses is not None}
    use = TakenUse(taker.session, taker.request_id, taker.claim_ids[-1], now_ms)
    left = (with_use(grant, use) if grant.grant_id in ids and not grant.is_held(taker) else grant for grant in standing)
    return [grant for grant in left if grant.uses_left != 0]
