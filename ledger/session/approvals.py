"""Several approvers of one request: whose yes counts, and how many people are still missing. Pure.

A yes counts once for a person, whatever their client, token or channel; with a token that somebody made under the name
of another it counts as its maker's. Nothing but a person's own answer counts: no
told answer, no decider, no grant, no agent. Where the rules have changed, those of the moment of the last yes decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from ledger.core.characters import person_key
from ledger.core.errors import DemandNotMetError
from ledger.core.event_shapes import Agreed, MessageDetail
from ledger.core.events import TOLD, Actor
from ledger.core.policy import Demand, Verdict
from ledger.policy.demands import asks_passkey
from ledger.session.commands import GivenReply, Reply
from ledger.session.rounds import shown_digest
from ledger.session.state import Agreement, Request, SessionState, Settled

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
