"""The sessions with pending requests, and what ends such requests in many sessions at once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from ledger.client.lookups import is_waiting
from ledger.core.errors import AlreadyAnsweredError, DamageError, SessionClosedError
from ledger.log.plans import SYSTEM
from ledger.log.surveys import StreamProblem, Survey, survey
from ledger.log.viewed import projects_of
from ledger.session.releases import releases
from ledger.session.state import SessionState, in_order
from ledger.stores.port import StreamKey

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger

log = logging.getLogger(__name__)

PENDING_SESSIONS_MAX = 100_000


class WaitingSessions:
    """The sessions of a ledger with pending requests."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: set[StreamProblem] = set()

    async def survey(self) -> Survey[SessionState]:
        """Return the current states, and the sessions that cannot be read."""
        due = await self._ledger.store.due(None, PENDING_SESSIONS_MAX)
        found = await self._states_of(session_id for session_id, _ in due)
        # The index of deadlines also has sessions with nothing but open claims.
        waiting = [state for state in found.rows if is_waiting(state)]
        return Survey(waiting, found.problems)

    async def states(self) -> list[SessionState]:
        """Return the current states; a session that cannot be read is logged once and left out."""
        return self._read(await self.survey())

    def _read(self, found: Survey[SessionState]) -> list[SessionState]:
        for problem in found.problems:
            if problem not in self._told:
                self._told.add(problem)
                log.warning("skipped: %s", problem.text)
        return found.rows

    async def _states_of(self, sessions: Iterable[str]) -> Survey[SessionState]:
        streams = self._ledger.streams
        return await survey(
            (StreamKey("session", one) for one in sessions), lambda key: streams.session(key.id).as_of_now()
        )

    async def cancel_of_token(self, token_id: str) -> None:
        """Cancel the pending requests of an access token that has ended."""
        for state in await self.states():
            for request in in_order(state.pending.values()):
                if request.token_id == token_id:
                    # Answered meanwhile.
                    with suppress(AlreadyAnsweredError):
                        await self._ledger.handle_of(state.session_id).cancel(
                            request.request_id, cause="token_revoked", actor=SYSTEM
                        )

    async def resume(self, project: str | None) -> None:
        """Judge the requests that an ended freeze held back again: of a project, or of all sessions (None)."""
        for state in await self.states():
            if state.pending.held() and project in (None, state.project):
                try:
                    await self._ledger.handle_of(state.session_id).answers.resume()
                except (DamageError, SessionClosedError) as error:
                    log.warning("session %s was skipped: %s", state.session_id, error)

    async def release_in_project(self, project: str, *, everywhere: bool = False) -> None:
        """Release the requests that a project's new grants allow, in its sessions with `cascade_always = "project"`.

        `everywhere` also releases those of its other sessions, as an answer may say; not where only the holder of the
        input lock may answer.
        """
        due = [session for session, _ in await self._ledger.store.due(None, PENDING_SESSIONS_MAX)]
        known = await projects_of(self._ledger.store, due)
        # One that no projector has come to is read, whichever project it is of.
        wanted = [session for session in due if known.get(session, project) == project]
        for state in self._read(await self._states_of(wanted)):
            if state.pending and state.project == project and releases(state, everywhere=everywhere):
                await self._ledger.handle_of(state.session_id).answers.release(everywhere=everywhere)
