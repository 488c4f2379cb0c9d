"""Demands on who answers: whether an answer meets them, whose yes counts, and how many people are still missing. Pure.

A yes counts once for a person, whatever their client, token or channel; with a token that somebody made under the name
of another it counts as its maker's. Nothing but a person's own answer counts: no told answer, no decider, no grant, no
agent. Where the rules have changed, those of the moment of the last yes decide. A grant is an answer given in advance, so
it lifts no part of a call whose demands it does not meet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from ledger.core.characters import person_key
from ledger.core.errors import DemandNotMetError, PasskeyRequiredError
from ledger.core.event_shapes import Agreed, MessageDetail, Proof
from ledger.core.events import TOLD, Actor
from ledger.core.grants import StandingGrant
from ledger.core.policy import Call, Demand, Offer, Policy, Verdict
from ledger.core.standing import kept
from ledger.policy.demands import asks_passkey, asks_several, asks_signed_grants, concerns, demand_sentences, demands_on
from ledger.session.commands import GivenReply, Reply
from ledger.session.decision import shown_digest
from ledger.session.signed_claims import require_same_claims
from ledger.session.state import Agreement, Request, SessionState, Settled, call_of
from ledger.session.would_run import would_run

PEOPLE: Final = frozenset(("person", "local"))
"""The kinds of actors that are people."""


class NeededApprovals(NamedTuple):
    """The approvals of a request: how many people are needed, whose yes counts, and how many people are missing.

    `among` are those people of the demand that lacks the most who have not approved yet; empty means anyone.
    """

    needed: int
    given: tuple[Agreement, ...]
    lacking: int
    among: tuple[str, ...]

    @property
    def waits_for(self) -> str:
        """Return what is missing in words with the names in backticks, for example ``1 more person of `ann` ``."""
        of = f" of {' or '.join(f'`{name}`' for name in self.among)}" if self.among else ""
        return f"{self.more_people}{of}"

    @property
    def more_people(self) -> str:
        """Return the number of people who are missing in words, without names: `1 more person`."""
        more = " more" if self.given else ""
        return f"{self.lacking}{more} {'person' if self.lacking == 1 else 'people'}"


class Lack(NamedTuple):
    """A demand for several approvers that is not met yet, and the number of people whom it lacks."""

    demand: Demand
    people: int


def approvals_of(request: Request) -> NeededApprovals | None:
    """Return the approvals of a request by its recorded demands and yeses; None where one person is enough."""
    if not (request.demands or request.agreed):
        return None
    several = for_several(request.demands)
    given = counting(request, request.demands)
    needed = max([*(one.approvers or 0 for one in several), *(one.needed for one in request.agreed)], default=0)
    if needed == 0:
        return None
    lacks = lacking(request.demands, [one.by.person for one in given])
    short = max([*(one.people for one in lacks), needed - len(given)])
    first = lacks[0].demand if lacks else several[0] if several else None
    done = {person_key(one.by.person) for one in given}
    left = () if first is None else tuple(name for name in first.among if person_key(name) not in done)
    return NeededApprovals(needed, given, max(short, 0), left)


def offered(request: Request) -> Offer | None:
    """Return what `session` and `always` are offered to remember: the agent's suggestion, else the narrowest choice.

    None where only *once* counts: several people must approve, it is a question or a plan, or nothing that could be
    remembered would answer the next such call.
    """
    if approvals_of(request) is not None or would_run(request).kind in ("question", "plan"):
        return None
    suggested = set(request.always)
    if not request.offers:
        return Offer(request.always) if suggested and not request.still_asked else None
    return next((one for one in request.offers if set(one.entries) == suggested), request.offers[0])


def for_several(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Return the demands for several approvers, those for the most people first."""
    return tuple(sorted((one for one in demands if one.approvers), key=lambda one: -(one.approvers or 0)))


def is_asker(request: Request, actor: Actor) -> bool:
    """Return whether an actor, or who may be behind it, counts as the asker: the agent, or its token's owner or maker."""
    asking = {person_key(name) for name in (*request.asker.names, request.owner) if name is not None}
    return not asking.isdisjoint(map(person_key, actor.names))


def agreement_of(request: Request, who: Actor | str) -> Agreement | None:
    """Return the yes that this person, or one of this name, gave to the request in its present round."""
    own = person_key(who if isinstance(who, str) else who.person)
    for one in request.agreed:
        if own in map(person_key, one.by.names if isinstance(who, str) else (one.by.person,)):
            return one
    return None


def counting(request: Request, demands: Collection[Demand]) -> tuple[Agreement, ...]:
    """Return the given yeses that count under these demands, in order, at most one for a person."""
    if not request.agreed:
        return ()
    shown = shown_digest(request)
    found = {
        person_key(one.by.person): one
        for one in request.agreed
        if (one.digest, one.round) == (shown, request.round)
        and is_person(one.by)
        and not is_asker(request, one.by)
        and (one.proof is not None or not asks_passkey(demands, "once", one.role))
    }
    return tuple(found.values())


def lacking(demands: Iterable[Demand], names: Iterable[str]) -> tuple[Lack, ...]:
    """Return the demands that are not met when these people have approved, the one that lacks the most people first."""
    approved: dict[str, set[str]] = {}
    for name in names:
        approved.setdefault(person_key(name), set()).add(name)
    lacks = []
    for demand in for_several(demands):
        people = (demand.approvers or 0) - sum(
            any(_may_approve(demand, name) for name in spelled) for spelled in approved.values()
        )
        if people > 0:
            lacks.append(Lack(demand, people))
    return tuple(sorted(lacks, key=lambda one: -one.people))


def is_person(actor: Actor) -> bool:
    """Return whether an answer of this actor is a person's own."""
    return actor.kind in PEOPLE and actor.via != TOLD


def require_approver(state: SessionState, request: Request, command: Reply, demands: Collection[Demand]) -> None:
    """Raise DemandNotMetError for a yes that does not count where the demands are for several approvers."""
    several = for_several(demands)
    if not several or command.given.reply == "reject":
        return
    why = _why_not(request, command, several, demands)
    if why is not None:
        needed = several[0].approvers
        raise DemandNotMetError(
            f"request `{request.request_id}` needs the yes of {needed} people: {why}",
            request_id=request.request_id,
            session=state.session_id,
            demand=f"approvers {needed}",
            needed=needed,
            approved=[one.by.name for one in counting(request, demands)],
        )


def _why_not(request: Request, command: Reply, several: Sequence[Demand], demands: Collection[Demand]) -> str | None:
    given, by = command.given, command.actor
    if given.told is not None or by.via == TOLD:
        return "an answer that is only reported names nobody; let each of them answer in the inbox"
    if not is_person(by):
        return f"`{by.name}` is not a person but of the kind `{by.kind}`; let people answer"
    if is_asker(request, by):
        return (
            f"`{by.person}` is the asker or the owner of its token, and does not count; reject it, or let others answer"
        )
    if given.reply != "once":
        return f"a yes to it is `once`, and `{given.reply}` would allow other calls too; answer `once` or `reject`"
    if given.updated_input is not None:
        return "they all approve the same call, so its input cannot be changed; answer without a changed input"
    if not any(_may_approve(one, by.person) for one in several):
        named = listed(dict.fromkeys(name for one in several for name in one.among))
        made = f", with a token that `{by.made_by}` made" if by.made_by else ""
        return f"the rule counts only {named}, and you answer as `{by.name}`{made}; let one of them answer"
    names = [one.by.person for one in counting(request, demands)]
    lacks = lacking(demands, names)
    if agreement_of(request, by) is None and lacks == lacking(demands, [*names, by.person]):
        return f"it still needs {listed(dict.fromkeys(name for one in lacks for name in one.demand.among))}"
    return None


def agreed(request: Request, given: GivenReply, by: Actor, demands: Collection[Demand]) -> tuple[Agreed, ...] | None:
    """Return the event of a yes that is not enough, none if it counts already; None where it meets all demands."""
    several = for_several(demands)
    before = counting(request, demands)
    if not lacking(demands, [*(one.by.person for one in before), by.person]):
        return None
    if person_key(by.person) in {person_key(one.by.person) for one in before}:
        return ()
    event = Agreed(
        request_id=request.request_id,
        digest=shown_digest(request),
        round=request.round,
        needed=several[0].approvers or 0,
        role=given.role,
        client_id=given.client_id,
        proof=given.proof,
        detail=MessageDetail(given.message) if given.message else None,
    )
    return (event,)


def approvers_with(request: Request, by: Actor, demands: Collection[Demand]) -> tuple[str, ...]:
    """Return the names of all who approved, the one who answers now last; none where one person is enough."""
    if not for_several(demands):
        return ()
    own = person_key(by.person)
    others = [one.by.name for one in counting(request, demands) if person_key(one.by.person) != own]
    return (*others, by.name)


def why_too_few(settled: Settled, demands: Iterable[Demand]) -> str | None:
    """Return why fewer people than these demands name allowed a request; None where they did, or rules allowed it."""
    several = for_several(demands)
    if not several or settled.outcome != "allowed" or _is_by_rules(settled):
        return None
    names: dict[str, str] = {}
    if settled.reply is not None and settled.cause is None and settled.told is None:
        names = {person_key(one.by.person): one.by.person for one in counting(settled.request, several)}
        if is_person(settled.by) and not is_asker(settled.request, settled.by):
            names[person_key(settled.by.person)] = settled.by.person
    lacks = lacking(several, names.values())
    if not lacks:
        return None
    demand = lacks[0].demand
    people = f" of {listed(demand.among)}" if demand.among else ""
    return f"{demand.approvers} people{people} must approve it, and {listed(names.values()) or 'nobody'} did"


def _is_by_rules(settled: Settled) -> bool:
    """Return whether rules allowed a request, so that no answer to it was needed."""
    request = settled.request
    is_answered = settled.reply is not None and settled.cause is None
    evaluation = request.evaluation
    return not is_answered and not request.grants and evaluation is not None and evaluation.verdict is Verdict.ALLOW


def listed(names: Iterable[str]) -> str:
    """Return names in words: `ann`, `ann` and `bob`, or `ann`, `bob` and `eve`; nothing for none."""
    *first, last = [f"`{name}`" for name in names] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _may_approve(demand: Demand, name: str) -> bool:
    """Return whether a demand counts this name. Here another spelling is another name, so that none stands in for a person."""
    return not demand.among or name.casefold() in {one.casefold() for one in demand.among}


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
