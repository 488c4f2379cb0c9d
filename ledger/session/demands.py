"""Checks of demands against an answer, for every way of answering. Pure.

A grant is an answer given in advance, so it lifts no part of a call whose demands it does not meet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ledger.core.characters import person_key
from ledger.core.errors import DemandNotMetError, PasskeyRequiredError
from ledger.core.event_shapes import Proof
from ledger.core.events import TOLD, Actor
from ledger.core.grants import StandingGrant
from ledger.core.policy import Call, Demand, Policy, Verdict
from ledger.core.standing import kept
from ledger.policy.demands import asks_passkey, asks_several, asks_signed_grants, concerns, demand_sentences, demands_on
from ledger.session.approvals import counting, is_asker, lacking, require_approver
from ledger.session.commands import Reply
from ledger.session.signed_claims import require_same_claims
from ledger.session.state import Request, SessionState, call_of


def require_met(state: SessionState, request: Request, command: Reply, demands: Collection[Demand]) -> None:
    """Raise DemandNotMetError for an answer that the demands forbid."""
    if demands:
        require_approver(state, request, command, demands)
    if demands or command.given.proof is not None:
        _require_signed(state, request, command, demands)
    for demand in demands:
        if not concerns(demand, command.given.reply, command.given.role):
            continue
        who = command.actor.person
        is_told = command.given.told is not None
        if demand.not_by == "asker" and (is_told or is_asker(request, command.actor)):
            why = "tells of an answer and names nobody" if is_told else "is the asker or the owner of its token"
            raise DemandNotMetError(
                f"a rule says that request `{request.request_id}` is not answered by its asker, and "
                f"`{who}` {why}; let another person answer, or cancel it",
                request_id=request.request_id,
                session=state.session_id,
                demand="not_by asker",
            )


def require_may_answer(state: SessionState, request: Request, actor: Actor, role: str | None) -> None:
    """Raise DemandNotMetError for a person whom the recorded demands keep from allowing the request."""
    by_others = any(one.not_by == "asker" and concerns(one, "once", role) for one in request.demands)
    several = asks_several(request.demands)
    if (by_others or several) and is_asker(request, actor):
        raise DemandNotMetError(
            f"a rule says that request `{request.request_id}` is not answered by its asker, and `{actor.person}` is the asker or "
            "the owner of its token; let another person extend it",
            request_id=request.request_id,
            session=state.session_id,
            demand="not_by asker" if by_others else "approvers",
        )


def may_be_unsigned(request: Request, reply: str, actor: Actor) -> bool:
    """Return whether an unsigned reply of this person meets the recorded demands of the request."""
    if asks_passkey(request.demands, reply):
        return False
    if reply != "reject" and asks_several(request.demands) and not _is_approver(request, reply, actor):
        return False
    return not is_asker(request, actor) or not any(
        one.not_by == "asker" and concerns(one, reply) for one in request.demands
    )


def _is_approver(request: Request, reply: str, actor: Actor) -> bool:
    """Return whether a yes of this person adds to those that the request has."""
    if reply != "once" or is_asker(request, actor):
        return False
    names = [one.by.person for one in counting(request, request.demands)]
    return lacking(request.demands, names) != lacking(request.demands, [*names, actor.person])


def _require_signed(state: SessionState, request: Request, command: Reply, demands: Collection[Demand]) -> None:
    """Raise PasskeyRequiredError for a missing proof, PasskeyRefusedError for a proof of another answer."""
    if command.given.proof is not None:
        require_same_claims(state, request, command)
    elif asks_passkey(demands, command.given.reply, command.given.role):
        raise PasskeyRequiredError(
            f"the answer `{command.given.reply}` to request `{request.request_id}` must be signed with a passkey; "
            "answer in the inbox, with a passkey of yours",
            request_id=request.request_id,
            session=state.session_id,
            demand="answer_by passkey",
        )


def binding(policy: Policy, request: Request, edited: Call | None = None) -> tuple[Demand, ...]:
    """Return the demands on a request: the recorded ones, and those of the current rules, also on the `edited` call."""
    now = demands_on(policy, call_of(request))
    if edited is not None:
        now = (*now, *demands_on(policy, edited))
    return tuple(dict.fromkeys((*request.demands, *now))) if now else request.demands


def grants_for(
    request: Request, grants: Sequence[StandingGrant], policy: Policy | None = None
) -> Sequence[StandingGrant]:
    """Return the grants that meet a request's recorded demands, and with a `policy` the current ones too."""
    demands = request.demands if policy is None else binding(policy, request)
    return that_count(grants, demands, askers(request.asker, request.owner)) if demands else grants


def that_count(
    grants: Sequence[StandingGrant], demands: Collection[Demand], asking: Collection[str]
) -> Sequence[StandingGrant]:
    """Return the grants that meet all demands on a call of these askers; none where several people must approve it."""
    if any(demand.not_by == "asker" and concerns(demand, "always") for demand in demands):
        keys = {person_key(one) for one in asking}
        grants = kept(grants, lambda grant: grant.by.via != TOLD and keys.isdisjoint(map(person_key, grant.by.names)))
    return that_are_signed(grants, demands)


def that_are_signed(grants: Sequence[StandingGrant], demands: Collection[Demand]) -> Sequence[StandingGrant]:
    """Return the grants; where a signature is demanded, only those with one, and none where several must approve.

    Imported grants count as unsigned, because the signatures of a file were not verified. A grant is the yes of one
    person to other calls.
    """
    if asks_several(demands):
        return ()
    if not asks_signed_grants(demands):
        return grants
    return kept(grants, lambda grant: grant.proof is not None and not grant.imported)


def proofs_of(demands: Collection[Demand], grants: Iterable[StandingGrant]) -> tuple[Proof, ...]:
    """Return the distinct proofs of the grants that lifted a call whose answer must be signed."""
    if not asks_signed_grants(demands):
        return ()
    return tuple({grant.proof.claims.nonce: grant.proof for grant in grants if grant.proof is not None}.values())


def falls_with_a_reject(policy: Policy, request: Request) -> bool:
    """Return whether the rejection of another request may end this one too; False where each must be signed."""
    return not asks_passkey(binding(policy, request), "reject")


def signed_verdict(verdict: Verdict, judged: Verdict, demands: Collection[Demand]) -> Verdict:
    """Return the verdict after the deciders, none of which replaces a demanded passkey or one of several approvers."""
    is_deciders = verdict is Verdict.ALLOW and judged is Verdict.ASK
    return Verdict.ASK if is_deciders and (asks_passkey(demands, "once") or asks_several(demands)) else verdict


def askers(asker: Actor, owner: str | None) -> tuple[str, ...]:
    """Return the names that count as the asker of a request."""
    return asker.names if owner is None else (*asker.names, owner)


def demanded(request: Request) -> tuple[str, ...]:
    """Return the recorded demands on the answer to a request, a sentence each, with names in backticks."""
    owner = None if request.owner == request.asker.name else request.owner
    asking = " or ".join(f"`{name}`" for name in askers(request.asker, owner))
    return demand_sentences(request.demands, asking)
