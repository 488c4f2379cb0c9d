"""A session as of a moment: its state as a JSON object, and the grants in force then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from ledger import Approved, Ledger
from ledger.client.results import pending_of, result_of
from ledger.core.grants import StandingGrant
from ledger.core.times import format_time
from ledger.log.history import Moment
from ledger.session.open_claims import open_claims
from ledger.session.state import SessionState
from ledger.session.would_run import would_run
from projections.sessions import summary_of


async def project_grants(ledger: Ledger, state: SessionState) -> list[StandingGrant]:
    """Return every grant that the session's project ever had, also revoked and expired ones."""
    if state.project is None:
        return []
    return list((await ledger.streams.project(state.project).refresh()).grants.values())


def approved_at(state: SessionState, of_project: Iterable[StandingGrant], at_ms: int) -> list[Approved]:
    """Return the grants in force in `state` at a time (server ms), in order of their making, the session's own first.

    A project grant that a reply in this state made counts from that reply on, although it reaches the project's stream
    a moment later.
    """
    own = [grant for grant in _as_of(state.grants.values(), at_ms) if _stood(grant, at_ms)]
    shared = [
        grant
        for grant in _as_of(of_project, at_ms)
        if _stood(grant, at_ms) and (grant.at_ms <= at_ms or _made_here(grant, state))
    ]
    return [
        *(Approved(grant=grant, session=state.session_id, project=state.project) for grant in _in_order(own)),
        *(Approved(grant=grant, session=grant.session, project=state.project) for grant in _in_order(shared)),
    ]


def _as_of(grants: Iterable[StandingGrant], at_ms: int) -> Iterator[StandingGrant]:
    """Iterate over the grants with the uses that were taken up to a time."""
    for grant in grants:
        taken = tuple(use for use in grant.taken if use.ms <= at_ms)
        yield grant if len(taken) == len(grant.taken) else replace(grant, taken=taken)


def _stood(grant: StandingGrant, at_ms: int) -> bool:
    ended = [ms for ms in (grant.revoked_ms, grant.expires_ms) if ms is not None]
    return all(at_ms < ms for ms in ended) and grant.uses_left != 0


def _made_here(grant: StandingGrant, state: SessionState) -> bool:
    return grant.session == state.session_id and grant.request_id is not None and grant.request_id in state.settled


def _in_order(grants: Iterable[StandingGrant]) -> list[StandingGrant]:
    return sorted(grants, key=lambda grant: (grant.version, grant.grant_id))


_OF_MOMENT: Final = frozenset({"session", "at", "version", "pending"})
"""Members of a summary that a moment has as of its own version, or in its state."""


def moment_json(moment: Moment[SessionState], standing: list[Approved], *, brief: bool = False) -> dict[str, Any]:
    """Return CONTRACT's row of `show` with further facts; with `brief`, settled requests are only counted."""
    state = moment.state
    settled: Any = Counter(one.outcome for one in state.settled.values()) if brief else settled_rows(state)
    return {
        "session": state.session_id,
        "version": moment.version,
        "at": format_time(moment.ms),
        "state": {
            "pending": [one.described() for one in pending_of(state)],
            "approved": [one.as_json() for one in standing],
            "clients": [
                {"client_id": client.client_id, "name": client.name, "since": format_time(client.since_ms)}
                for client in sorted(state.clients.values(), key=lambda client: client.version)
            ],
            "settled": settled,
        },
        **{name: value for name, value in summary_of(state).items() if name not in _OF_MOMENT},
        "lock": state.lock,
        "claims": [claim_row(state, request_id) for request_id, _ in open_claims(state)],
    }


def claim_row(state: SessionState, request_id: str) -> dict[str, Any]:
    """Return a call with an open claim: it may have run."""
    result = result_of(state, request_id)
    request = result.request
    return {
        "request_id": request_id,
        "permission": request.permission,
        "would_run": would_run(request).in_words(),
        "claim": result.as_json()["claim"],
    }


def settled_rows(state: SessionState) -> list[dict[str, Any]]:
    return [result_of(state, request_id).as_json() for request_id in settled_ids(state)]


def settled_ids(state: SessionState) -> list[str]:
    ended = sorted(state.settled.values(), key=lambda settled: (settled.version, settled.request.request_id))
    return [settled.request.request_id for settled in ended]
