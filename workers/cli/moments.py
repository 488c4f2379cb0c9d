"""Which grants were in force at a moment of the past: a session's own and its project's."""

from __future__ import annotations

from collections.abc import Iterable

from ledger import Approved, Ledger
from ledger.grants import StandingGrant
from ledger.session.state import SessionState


async def project_grants(ledger: Ledger, state: SessionState) -> list[StandingGrant]:
    """Every grant that the session's project ever had, also those that were revoked or ran out."""
    if state.project is None:
        return []
    return list((await ledger.streams.project(state.project).refresh()).grants.values())


def approved_at(state: SessionState, of_project: Iterable[StandingGrant], at_ms: int) -> list[Approved]:
    """What was in force in `state` at a time (server ms), in the order in which it was made, the session's own first.

    A project's grant that a reply in this state made counts from that reply on, although it reaches the project's
    stream a moment later.
    """
    own = [grant for grant in state.grants.values() if _stood(grant, at_ms)]
    shared = [
        grant for grant in of_project if _stood(grant, at_ms) and (grant.at_ms <= at_ms or _made_here(grant, state))
    ]
    return [
        *(Approved(grant=grant, session=state.session_id, project=state.project) for grant in _in_order(own)),
        *(Approved(grant=grant, session=grant.session, project=state.project) for grant in _in_order(shared)),
    ]


def _stood(grant: StandingGrant, at_ms: int) -> bool:
    ended = [ms for ms in (grant.revoked_ms, grant.expires_ms) if ms is not None]
    return all(at_ms < ms for ms in ended)


def _made_here(grant: StandingGrant, state: SessionState) -> bool:
    return grant.session == state.session_id and grant.request_id is not None and grant.request_id in state.settled


def _in_order(grants: Iterable[StandingGrant]) -> list[StandingGrant]:
    return sorted(grants, key=lambda grant: (grant.version, grant.grant_id))
