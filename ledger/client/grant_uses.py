"""The calls that a grant let through, from the log: exact for a grant with a limit of uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ledger.core.events import Outcome
from ledger.core.grants import StandingGrant
from ledger.core.times import format_time
from ledger.log.places import field_of
from ledger.log.surveys import Survey, survey
from ledger.session.state import SessionState, Settled
from ledger.session.would_run import would_run
from ledger.stores.port import StreamKey

if TYPE_CHECKING:
    from ledger.log.streams import Streams


class GrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """One call that a grant let through, at `at_ms` (server ms).

    `outcome` is that of its request now, None while it is pending again or where its session has no such request. `ran`
    tells that a run of the call was recorded. `claim_id` is the claim that took the use, if a claim did.
    """

    grant_id: str
    session: str
    request_id: str
    at_ms: int
    claim_id: str | None = None
    permission: str | None = None
    what: str | None = None
    outcome: Outcome | None = None
    ran: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the object of the row of `revoke --uses-of`."""
        members = msgspec.to_builtins(self)
        at_ms = members.pop("at_ms")
        return {**members, "at": format_time(at_ms)}


def last_uses(state: SessionState) -> dict[str, int]:
    """Return the last time (server ms) at which each grant let a call of this session through."""
    found: dict[str, int] = {}
    for settled in state.settled.values():
        for grant_id in grants_behind(state, settled):
            found[grant_id] = max(found.get(grant_id, 0), settled.at_ms)
    return found


def grants_behind(state: SessionState, settled: Settled) -> tuple[str, ...]:
    """Return the ids of the grants that let a call through; none where a person, a rule or a decider did."""
    if settled.outcome != "allowed":
        return ()
    cause = settled.cause
    if cause is None:
        return settled.request.grants if settled.reply is None else ()
    if cause.kind == "grant":
        return () if cause.grant_id is None else (cause.grant_id,)
    answered = state.settled.get(cause.request_id or "")
    return () if answered is None else answered.grants


async def uses_of(
    streams: Streams, users_of_grant: Callable[[str], AsyncIterator[list[StreamKey]]], key: StreamKey, grant_id: str
) -> Survey[GrantUse]:
    """Return the calls that a grant of this stream let through, in order of time, and the sessions without an answer.

    `users_of_grant` iterates over the sessions that may have used a grant without a limit.
    """

    async def read(one: StreamKey) -> SessionState:
        return await streams.session(one.id).refresh()

    if key.kind == "session":
        states = await survey([key], read)
        grant = next((one.grants[grant_id] for one in states.rows), None)
    else:
        grant = (await streams.project(key.id).refresh()).grants[grant_id]
        states = await _read_all(_sessions(users_of_grant, grant), read)
    found = [use for state in states.rows for use in _uses_in(state, key, grant_id)]
    if grant is not None and grant.uses is not None:
        found = list(_exact(grant, found, {state.session_id: state for state in states.rows}))
    return Survey(sorted(found, key=lambda one: (one.at_ms, one.session, one.request_id)), states.problems)


async def _read_all(
    pages: AsyncIterator[list[StreamKey]], read: Callable[[StreamKey], Awaitable[SessionState]]
) -> Survey[SessionState]:
    found: Survey[SessionState] = Survey([], [])
    async for keys in pages:
        some = await survey(keys, read)
        found = Survey([*found.rows, *some.rows], [*found.problems, *some.problems])
    return found


async def _sessions(
    users_of_grant: Callable[[str], AsyncIterator[list[StreamKey]]], grant: StandingGrant
) -> AsyncIterator[list[StreamKey]]:
    """Iterate over the sessions that may have used a grant of a project."""
    if grant.uses is None:
        async for keys in users_of_grant(grant.grant_id):
            yield keys
    else:
        yield [StreamKey("session", session) for session in dict.fromkeys(use.session for use in grant.taken)]


def _uses_in(state: SessionState, key: StreamKey, grant_id: str) -> Iterator[GrantUse]:
    if key.kind == "project" and state.project != key.id:
        return
    for settled in state.settled.values():
        if grant_id in grants_behind(state, settled):
            yield _use(grant_id, state, settled)


def _use(grant_id: str, state: SessionState, settled: Settled) -> GrantUse:
    request = settled.request
    return GrantUse(
        grant_id=grant_id,
        session=state.session_id,
        request_id=request.request_id,
        at_ms=settled.at_ms,
        permission=request.permission,
        what=would_run(request).in_words(),
        outcome=settled.outcome,
        ran=settled.finished,
    )


def _exact(grant: StandingGrant, found: list[GrantUse], states: dict[str, SessionState]) -> Iterator[GrantUse]:
    """Iterate over the uses taken, with what the sessions say of each."""
    uses = {(one.session, one.request_id): one for one in found}
    for use in grant.taken:
        known, state = uses.get((use.session, use.request_id)), states.get(use.session)
        settled = None if state is None else state.settled.get(use.request_id)
        if known is None and state is not None and settled is not None:
            known = _use(grant.grant_id, state, settled)
        if known is None:
            known = GrantUse(grant_id=grant.grant_id, session=use.session, request_id=use.request_id, at_ms=use.ms)
        yield msgspec.structs.replace(known, at_ms=use.ms, claim_id=use.claim_id or None)


def used_field(state: SessionState, grant_id: str) -> str:
    """Return the field of a grant that a session used: its own, or its project's."""
    own = grant_id in state.grants or state.project is None
    key = StreamKey("session", state.session_id) if own else StreamKey("project", str(state.project))
    return field_of(key.name, grant_id)
