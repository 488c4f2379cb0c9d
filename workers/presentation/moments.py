"""A session as of a moment: its state as a JSON object, and the grants in force then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from msgspec.structs import replace

from ledger import Approved, Ledger, Pending
from ledger.client.results import pending_of, result_of, words_json
from ledger.core.grants import StandingGrant
from ledger.core.ids import cursor_number
from ledger.core.times import format_time, format_time_or_none
from ledger.log.history import Moment
from ledger.session.decision import records_clients
from ledger.session.open_claims import open_claims
from ledger.session.state import Client, SessionState
from projections.sessions import summary_of

Row = dict[str, Any]


async def online(ledger: Ledger, state: SessionState) -> list[Row] | None:
    """Return the clients that are online now: in this session, and in inboxes that reach it; None if unknown.

    `since` is the time of a recorded connection, None for a client that is not on record.
    """
    live = await ledger.streams.session_fold.live(state, ledger.store.clock.now_ms())
    if not live.is_known:
        return None
    known = state.clients
    since_ms = {one.client_id: known[one.client_id].since_ms for one in live.all() if one.client_id in known}
    return [
        {"client_id": one.client_id, "name": one.name, "since": format_time_or_none(since_ms.get(one.client_id))}
        for one in live.all()
    ]


def on_record(state: SessionState) -> list[Row]:
    """Return the clients whose connection an event records, and no later event their end, in order of connecting."""
    return [_recorded(one) for one in sorted(state.clients.values(), key=lambda one: (one.version, one.client_id))]


def _recorded(client: Client) -> Row:
    return {"client_id": client.client_id, "name": client.name, "since": format_time(client.since_ms)}


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


class Clients(NamedTuple):
    """The clients of a moment: who is online now by leases (None if unknown), or who was on record at a past moment."""

    are: Literal["online", "recorded"]
    rows: list[dict[str, Any]] | None


async def clients_of(ledger: Ledger, state: SessionState, *, is_now: bool) -> Clients:
    """Return who is online in the session now, or the clients on record in a past state of it."""
    return Clients("online", await online(ledger, state)) if is_now else Clients("recorded", on_record(state))


_OF_MOMENT: Final = frozenset({"session", "at", "version", "pending"})
"""Members of a summary that a moment has as of its own version, or in its state."""


NO_SETTLED: Final = "0"
"""The cursor after which there is no settled request."""


class MomentPage(NamedTuple):
    """The part of a state's lists that is shown: what is pending and approved from the oldest on, the newest settled ones.

    `settled` is in order of settling, `counts` are those of the whole lists, and after `cursor` come older settled ones.
    """

    pending: list[Pending]
    approved: list[Approved]
    settled: list[str]
    clients: Clients
    counts: dict[str, int]
    cursor: str | None


def moment_page(
    state: SessionState, standing: list[Approved], clients: Clients, limit: int | None, after: str | None = None
) -> MomentPage:
    """Return a page of at most `limit` of each list (None: all). Raises InputError for a strange cursor.

    It costs by its length, not by the number of requests that were ever settled.
    """
    before = None if after is None else cursor_number(after, after)
    ended = [
        one.request.request_id for one in islice(state.settled.newest(before), None if limit is None else limit + 1)
    ]
    is_cut = limit is not None and len(ended) > limit
    settled = ended[:limit][::-1]
    waiting = pending_of(state, limit)
    counts = {
        "pending": len(state.pending),
        "approved": len(standing),
        "clients": len(clients.rows or ()),
        "settled": len(state.settled),
    }
    cursor = str(state.settled[settled[0]].version) if is_cut else None
    return MomentPage(waiting, standing[:limit], settled, clients, counts, cursor)


def moment_json(
    moment: Moment[SessionState],
    standing: list[Approved],
    clients: Clients,
    *,
    brief: bool = False,
    limit: int | None = None,
    after: str | None = None,
) -> dict[str, Any]:
    """Return CONTRACT's row of `show` with further facts: a page, and the counts of the whole lists.

    With `brief`, settled requests are only counted, by outcome. Errors as of `moment_page`.
    """
    state = moment.state
    page = moment_page(state, standing, clients, limit, NO_SETTLED if brief else after)
    settled: Any = Counter(one.outcome for one in state.settled.values()) if brief else settled_rows(state, page)
    return {
        "session": state.session_id,
        "version": moment.version,
        "at": format_time(moment.ms),
        "state": {
            "pending": [one.described() for one in page.pending],
            "approved": [one.as_json() for one in page.approved],
            "clients": clients.rows,
            "settled": settled,
        },
        "counts": page.counts,
        "cursor": page.cursor,
        **{name: value for name, value in summary_of(state).items() if name not in _OF_MOMENT},
        "clients_are": clients.are,
        "lock": state.lock if records_clients(state) else None,
        "claims": [claim_row(state, request_id) for request_id, _ in open_claims(state)],
    }


def claim_row(state: SessionState, request_id: str) -> dict[str, Any]:
    """Return a call with an open claim: it may have run."""
    result = result_of(state, request_id)
    request = result.request
    return {
        "request_id": request_id,
        "permission": request.permission,
        **words_json(request),
        "claim": result.as_json()["claim"],
    }


def settled_rows(state: SessionState, page: MomentPage) -> list[dict[str, Any]]:
    return [result_of(state, request_id).as_json() for request_id in page.settled]
