"""Demands on an answer, held against whoever answers: the one place, for every way of answering. Pure.

A standing grant is an answer given in advance, so it lifts nothing of a call whose demands it does not meet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ledger.errors import DemandNotMetError
from ledger.events import TOLD
from ledger.grants import StandingGrant
from ledger.policy.demands import demands_on
from ledger.policy.model import Call, Demand
from ledger.session.commands import Reply
from ledger.session.state import Request, SessionState


def require_met(state: SessionState, request: Request, command: Reply, *calls: Call) -> None:
    """Raise DemandNotMetError for an answer that the demands of the ask, or those of now on these calls, forbid."""
    now = [demand for call in calls for demand in demands_on(command.policy, call)]
    for demand in dict.fromkeys((*request.demands, *now)):
        who = command.actor.name
        is_told = command.told is not None
        if demand.not_by == "asker" and (is_told or _is_one_of(who, askers(request.asker.name, request.owner))):
            why = "tells of an answer and names nobody" if is_told else "is the asker or the owner of its token"
            raise DemandNotMetError(
                f"a rule says that request `{request.request_id}` is not answered by its asker, and "
                f"`{who}` {why}; let another person answer, or cancel it",
                request_id=request.request_id,
                session=state.session_id,
                demand="not_by asker",
            )


def grants_for(request: Request, grants: Sequence[StandingGrant]) -> list[StandingGrant]:
    """Return the grants that count for a request, by its recorded demands."""
    return that_count(grants, request.demands, askers(request.asker.name, request.owner))


def that_count(
    grants: Sequence[StandingGrant], demands: Collection[Demand], asking: Collection[str]
) -> list[StandingGrant]:
    """Return the grants that meet all demands on a call of these askers."""
    if any(demand.not_by == "asker" for demand in demands):
        grants = [grant for grant in grants if grant.by.via != TOLD and not _is_one_of(grant.by.name, asking)]
    return list(grants)


def askers(asker: str, owner: str | None) -> tuple[str, ...]:
    """Return the names that count as the asker of a request."""
    return (asker,) if owner is None else (asker, owner)


def _is_one_of(name: str, asking: Collection[str]) -> bool:
    return name.casefold() in {one.casefold() for one in asking}
