"""Repairs after a process died between two streams, made before the views pass that point.

A winning reply with scope `project` is first in its session's stream; its grants follow in the project's. A failover
may lose the grants while the reply, on another server, is kept. And a project's grant releases pending requests in
other sessions (`cascade_always = "project"`). Every repair is idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ledger import Ledger, Session
from ledger.core.errors import DamageError, InputError
from ledger.core.events import Granted, LogRegressed, Replied
from ledger.log.archive.archived_store import all_streams
from ledger.log.viewed import projects_of
from ledger.session.state import SessionState, Settled
from ledger.stores.port import StreamKey
from projections.projection import Seen

log = logging.getLogger(__name__)

WAITING_SESSIONS_MAX: Final = 100_000

SESSIONS_AT_ONCE_COUNT: Final = 500
"""The number of sessions whose projects are read at once."""


class Repairs:
    """Repairs for an `Engine`: called with a step's events before the step. A StoreError prevents the step."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def __call__(self, key: StreamKey, seen: Sequence[Seen]) -> None:
        if key.kind == "project":
            if any(isinstance(one.recorded.event, LogRegressed) for one in seen):
                await self._write_lost_grants(key.id)
            if any(isinstance(one.recorded.event, Granted) for one in seen):
                await self._release_in(key.id)
            return
        for one in seen:
            settled = _granting(one)
            if settled is not None and isinstance(one.after, SessionState) and one.after.project is not None:
                await self._write_grants(key.id, one.after.project, settled)

    async def _write_grants(self, session: str, project: str, settled: Settled) -> None:
        try:
            known = (await self._ledger.streams.project(project).refresh()).grants
            if any(grant_id not in known for grant_id in settled.grants):
                await Session(self._ledger, session).answers.write_project_grants(settled)
                log.warning(
                    "project %s lacked the grants of the reply to %s in session %s: written",
                    project,
                    settled.request.request_id,
                    session,
                )
        except (DamageError, InputError) as error:
            # That stream needs a person; the views of this one go on without it.
            log.warning(
                "the grants of request %s are not in project %s: %s", settled.request.request_id, project, error
            )

    async def _write_lost_grants(self, project: str) -> None:
        """Grant again after the server lost the end of this project's stream: the grants of its sessions' replies.

        The uses that their calls took are taken again too.

        A session that is in no view so far is repaired when it is projected. A lost revoke stays lost.
        """
        batch: list[str] = []
        uses: list[tuple[str, Settled]] = []
        async for key in all_streams(self._ledger.store):
            if key.kind == "session":
                batch.append(key.id)
            if len(batch) == SESSIONS_AT_ONCE_COUNT:
                await self._write_lost_grants_of(batch, project, uses)
                batch = []
        await self._write_lost_grants_of(batch, project, uses)
        for session, settled in uses:
            await Session(self._ledger, session).answers.take_lost_uses(settled)

    async def _write_lost_grants_of(
        self, sessions: Sequence[str], project: str, uses: list[tuple[str, Settled]]
    ) -> None:
        """Grant again in some sessions; add their requests that took uses to `uses`, for when all grants are there."""
        known = await projects_of(self._ledger.store, sessions)
        for session in (one for one in sessions if known.get(one) == project):
            try:
                state = await Session(self._ledger, session).state()
            except DamageError as error:
                log.warning("session %s was skipped: %s", session, error)
                continue
            for settled in state.settled.values():
                if settled.granted_to_project and settled.grants:
                    await self._write_grants(session, project, settled)
            uses += [(session, one) for one in state.settled.values() if one.request.uses]

    async def _release_in(self, project: str) -> None:
        for session in await self._waiting_in(project):
            handle = Session(self._ledger, session)
            try:
                state = await handle.state()
                if state.project == project and state.settings.cascade_always == "project":
                    await handle.answers.release()
            except DamageError as error:
                log.warning("session %s was skipped: %s", session, error)

    async def _waiting_in(self, project: str) -> list[str]:
        """Return the sessions with pending requests that are of this project, or in no view so far."""
        waiting = [session for session, _ in await self._ledger.store.due(None, WAITING_SESSIONS_MAX)]
        known = await projects_of(self._ledger.store, waiting)
        return [session for session in waiting if known.get(session, project) == project]


def _granting(seen: Seen) -> Settled | None:
    """Return the outcome of a reply that grants to the project, if this event is the winning one."""
    event = seen.recorded.event
    if not isinstance(event, Replied) or event.scope != "project" or not event.grants:
        return None
    if not isinstance(seen.after, SessionState):
        return None
    settled = seen.after.settled.get(event.request_id)
    return settled if settled is not None and settled.version == seen.recorded.version else None
