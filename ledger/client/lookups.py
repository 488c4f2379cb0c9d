"""Streams found by the id of a request or a grant: by an index of the views, and what the views may lag behind.

The index is read together with the names of the streams that are ahead of it, so nothing appended before is missed.
What it names is only where to look; the streams themselves are read. Where no projector has compared all streams of a
partition with their views, the streams there are compared now, and those that are ahead are read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import msgspec

from ledger.core import codec
from ledger.core.errors import AlreadyAnsweredError, DamageError, InputError, SessionClosedError
from ledger.core.events import Actor, Asked, CancelCause
from ledger.core.ids import is_id
from ledger.log.places import NAMED, STANDING_VIEW, WAITING_VIEW, field_of, parts_of
from ledger.log.plans import SYSTEM
from ledger.log.stream import Stream
from ledger.log.streams import Streams
from ledger.log.surveys import StreamProblem, Survey, survey
from ledger.log.tail import entry_at
from ledger.log.viewed import (
    GRANTS_VIEW,
    REQUESTS_VIEW,
    USES_VIEW,
    pages_of_streams,
    projects_of,
    streams_behind,
)
from ledger.session.releases import releases
from ledger.session.state import SessionState, in_order
from ledger.stores.port import FoundFields, Position, StreamKey
from ledger.stores.store import Store

if TYPE_CHECKING:
    from ledger.client.context import Context

KNOWN_IN_MAX: Final = 200
"""The sessions with one request id that are read; beyond them only those with pending requests."""

WAITING_MAX: Final = 100_000

USERS_MAX: Final = 1_000_000
"""The sessions in which one grant let calls through; all of them are read."""

UNPROJECTED_MAX: Final = 32
"""The streams with a line of a feed that are read without a look at whether they are ahead of their views at all."""

ALIKE_COUNT: Final = 5
ALIKE_CHARS: Final = 4
"""The shortest part of an id for which an error names the ids that begin with it, and how many."""


class KnownRequest(NamedTuple):
    """A request by its id, and the state of its session as of now."""

    request_id: str
    state: SessionState


class Lookups:
    """The lookups of a ledger."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def of_request(self, request_id: str) -> Survey[SessionState]:
        """Return the sessions that know a request id, and those that cannot be read.

        If it is known in a session with pending requests, others may be left out.
        """
        if not is_id(request_id):
            return Survey([], [])
        store = self._context.store
        found = await self._look_up(REQUESTS_VIEW, field_of(request_id, ""), KNOWN_IN_MAX + 1)
        # An agent chooses its ids: many sessions may have one.
        is_known_in_many = len(found.fields) > KNOWN_IN_MAX
        named = {StreamKey("session", parts_of(one)[1]) for one in found.fields[:KNOWN_IN_MAX]}
        incomplete = frozenset(found.incomplete)
        named.update(
            key
            for key in found.unprojected
            if key.kind == "session" and key.partition(store.partition_count) not in incomplete
        )
        # In the others the hints of deadlines name the sessions with pending requests, which come first.
        searched = None if is_known_in_many else sorted(incomplete)
        if searched is None or searched:
            due = await store.due(None, WAITING_MAX, searched)
            named.update(StreamKey("session", session) for session, _ in due)
        known = await self._knowing(sorted(named), request_id)
        if not any(map(is_waiting, known.rows)):
            async for keys in self._others(incomplete, named, "session"):
                more = await self._knowing(keys, request_id)
                known = Survey([*known.rows, *more.rows], [*known.problems, *more.problems])
        return known

    async def _knowing(self, keys: Iterable[StreamKey], request_id: str) -> Survey[SessionState]:
        streams = self._context.streams
        states = await survey(keys, lambda key: streams.session(key.id).refresh())
        return Survey([one for one in states.rows if one.find(request_id) is not None], states.problems)

    async def of_grant(self, grant_id: str) -> Survey[StreamKey]:
        """Return the streams that have a grant, revoked ones included, and the streams that cannot be read."""
        found = await self._look_up(GRANTS_VIEW, field_of(grant_id, ""), KNOWN_IN_MAX)
        named = {StreamKey.parse(parts_of(one)[1]) for one in found.fields}
        named.update(key for key in found.unprojected if key.has_calls)
        having = await self._having(sorted(named), grant_id)
        if not having.rows:
            async for keys in self._others(found.incomplete, named, "session", "project"):
                more = await self._having(keys, grant_id)
                having = Survey(more.rows, [*having.problems, *more.problems])
                if having.rows:
                    break
        return having

    async def _having(self, keys: Iterable[StreamKey], grant_id: str) -> Survey[StreamKey]:
        async def read(key: StreamKey) -> StreamKey | None:
            return key if grant_id in await self._grants_in(key) else None

        found = await survey(keys, read)
        return Survey([key for key in found.rows if key is not None], found.problems)

    async def users_of_grant(self, grant_id: str) -> AsyncIterator[list[StreamKey]]:
        """Iterate over the sessions in which a grant of a project may have let a call through, page by page."""
        found = await self._look_up(USES_VIEW, field_of(grant_id, ""), USERS_MAX)
        named = {StreamKey("session", parts_of(one)[1]) for one in found.fields}
        named.update(key for key in found.unprojected if key.kind == "session")
        yield sorted(named)
        async for keys in self._others(found.incomplete, named, "session"):
            yield keys

    async def _look_up(self, view: str, prefix: str, count: int) -> FoundFields:
        """Return the fields of an index with this beginning, and the streams that are ahead of it.

        Of many streams with a line of a feed only those are named that are ahead of their views.
        Sealing leaves a line for each session, and all of them would be read from the archive.
        """
        store = self._context.store
        found = await store.look_up(view, prefix, count)
        if len(found.unprojected) <= UNPROJECTED_MAX:
            return found
        try:
            unprojected = await streams_behind(store, found.unprojected)
        except DamageError:
            return found  # the reader names the damaged one
        # What was projected since the first look is in the index only now.
        fields = {*found.fields, *(await store.look_up(view, prefix, count)).fields}
        return msgspec.structs.replace(found, fields=sorted(fields)[:count], unprojected=list(unprojected))

    async def _others(
        self, partitions: Collection[int], read: Collection[StreamKey], *kinds: str
    ) -> AsyncIterator[list[StreamKey]]:
        """Iterate over the streams of these partitions that are ahead of their views, except those read already."""
        if not partitions:
            return
        store = self._context.store
        async for page in pages_of_streams(store, frozenset(partitions)):
            wanted = [key for key in page if key.kind in kinds and key not in read]
            if found := await streams_behind(store, wanted):
                yield list(found)

    async def requests_beginning(self, part: str) -> list[KnownRequest]:
        """Return the requests, pending and ended, whose id begins with a part; none for a part of fewer than 4 characters.

        Raises InputError where more ids begin so than are looked at.
        """
        found: list[KnownRequest] = []
        async for keys in self._with_beginning(REQUESTS_VIEW, part, "session"):
            states = await survey(keys, lambda key: self._context.streams.session(key.id).as_of_now())
            found += [
                KnownRequest(one, state)
                for state in states.rows
                for one in (*state.pending, *state.settled)
                if one.startswith(part)
            ]
        return found

    async def grants_beginning(self, part: str) -> list[str]:
        """Return the ids of grants, in force and ended, as `requests_beginning`."""
        found: set[str] = set()
        async for keys in self._with_beginning(GRANTS_VIEW, part, "session", "project"):
            grants = await survey(keys, self._grants_in)
            found.update(one for ids in grants.rows for one in ids if one.startswith(part))
        return sorted(found)

    async def _grants_in(self, key: StreamKey) -> Collection[str]:
        streams = self._context.streams
        stream: Stream[Any] = streams.project(key.id) if key.kind == "project" else streams.session(key.id)
        grants: Collection[str] = (await stream.refresh()).grants
        return grants

    async def _with_beginning(self, view: str, part: str, *kinds: str) -> AsyncIterator[list[StreamKey]]:
        """Iterate over the streams that may have an id that begins so, by an index of ids; each comes once."""
        if len(part) < ALIKE_CHARS or not is_id(part):
            return
        found = await self._look_up(view, part, KNOWN_IN_MAX + 1)
        if len(found.fields) > KNOWN_IN_MAX:
            raise InputError(f"more than {KNOWN_IN_MAX} ids begin with `{part}`; type more of the one you mean")
        of = (parts_of(one)[1] for one in found.fields)
        named = {StreamKey.parse(one) if view == GRANTS_VIEW else StreamKey("session", one) for one in of}
        named.update(key for key in found.unprojected if key.kind in kinds)
        yield sorted(named)
        async for keys in self._others(found.incomplete, named, *kinds):
            yield keys

    async def alike(self, what: Literal["pending requests", "grants in force"], part: str) -> str:
        """Return those whose id begins with a part, for an error's text; empty if there are none."""
        view = WAITING_VIEW if what == "pending requests" else STANDING_VIEW
        if len(part) < ALIKE_CHARS or not is_id(part):
            return ""
        found = await self._context.store.view_page(view, NAMED + part, ALIKE_COUNT + 1)
        ids = [parts_of(field)[1:] for field in found]
        named = ", ".join(f"`{one}` in `{place}`" for one, place in ids[:ALIKE_COUNT])
        more = " and more" if len(ids) > ALIKE_COUNT else ""
        return f"; {what} whose id begins so: {named}{more}" if named else ""


async def states_of(streams: Streams, sessions: Iterable[str]) -> Survey[SessionState]:
    """Return sessions as of now, and those that cannot be read."""
    keys = (StreamKey("session", one) for one in sessions)
    return await survey(keys, lambda key: streams.session(key.id).as_of_now())


def is_waiting(state: SessionState) -> bool:
    """Return whether a session has something that waits for a person."""
    return bool(state.pending) or state.lock_request is not None


def waiting_first(known: Survey[SessionState]) -> list[str]:
    """Return the sessions with pending requests among those that know a request; if there are none, all of them."""
    waiting = [state.session_id for state in known.rows if is_waiting(state)]
    return waiting or [state.session_id for state in known.rows]


async def asked_event(store: Store, key: StreamKey, at: Position) -> Asked | None:
    """Return the ask at a position; None where the log does not have it, or not its content."""
    try:
        entry = await entry_at(store, key, at)
        if entry is None:
            return None
        event = codec.decode(entry.payload, entry.content).event
    except DamageError:
        return None
    return event if isinstance(event, Asked) and event.detail is not None else None


log = logging.getLogger(__name__)

PENDING_SESSIONS_MAX = 100_000


class ReleasedAnswers(Protocol):
    """The part of a session that releases its requests."""

    async def resume(self) -> object: ...

    async def release(self, *, everywhere: bool = False) -> object: ...


class WaitingSession(Protocol):
    """A session with pending requests, as far as it is changed here."""

    @property
    def answers(self) -> ReleasedAnswers: ...

    async def cancel(self, request_id: str, /, *, cause: CancelCause, actor: Actor) -> object: ...


class WaitingSessions:
    """The sessions of a ledger with pending requests. `handle_of` makes the handle of one by its id."""

    def __init__(self, context: Context, handle_of: Callable[[str], WaitingSession]) -> None:
        self._context = context
        self._handle_of = handle_of
        self._reported: set[StreamProblem] = set()

    async def survey(self) -> Survey[SessionState]:
        """Return the current states, and the sessions that cannot be read."""
        due = await self._context.store.due(None, PENDING_SESSIONS_MAX)
        found = await states_of(self._context.streams, (session_id for session_id, _ in due))
        # The index of deadlines also has sessions with nothing but open claims.
        waiting = [state for state in found.rows if is_waiting(state)]
        return Survey(waiting, found.problems)

    async def states(self) -> list[SessionState]:
        """Return the current states; a session that cannot be read is logged once and left out."""
        return self._read(await self.survey())

    def _read(self, found: Survey[SessionState]) -> list[SessionState]:
        for problem in found.problems:
            if problem not in self._reported:
                self._reported.add(problem)
                log.warning("skipped: %s", problem.text)
        return found.rows

    async def cancel_of_token(self, token_id: str) -> None:
        """Cancel the pending requests of an access token that has ended."""
        for state in await self.states():
            for request in in_order(state.pending.values()):
                if request.token_id == token_id:
                    # Answered meanwhile.
                    with suppress(AlreadyAnsweredError):
                        await self._handle_of(state.session_id).cancel(
                            request.request_id, cause="token_revoked", actor=SYSTEM
                        )

    async def resume(self, project: str | None) -> None:
        """Judge the requests that an ended freeze held back again: of a project, or of all sessions (None)."""
        for state in await self.states():
            if state.pending.held() and project in (None, state.project):
                try:
                    await self._handle_of(state.session_id).answers.resume()
                except (DamageError, SessionClosedError) as error:
                    log.warning("session %s was skipped: %s", state.session_id, error)

    async def release_in_project(self, project: str, *, everywhere: bool = False) -> None:
        """Release the requests that a project's new grants allow, in its sessions with `cascade_always = "project"`.

        `everywhere` also releases those of its other sessions, as an answer may say; not where only the holder of the
        input lock may answer.
        """
        due = [session for session, _ in await self._context.store.due(None, PENDING_SESSIONS_MAX)]
        known = await projects_of(self._context.store, due)
        # One that no projector has come to is read, whichever project it is of.
        wanted = [session for session in due if known.get(session, project) == project]
        for state in self._read(await states_of(self._context.streams, wanted)):
            if state.pending and state.project == project and releases(state, everywhere=everywhere):
                await self._handle_of(state.session_id).answers.release(everywhere=everywhere)
