"""Redactions: content taken out of the log, of which the decisions, outcomes, people and times stay."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from typing import TYPE_CHECKING

from ledger.core.errors import DamageError, InputError, UnknownSessionError
from ledger.core.events import Actor
from ledger.core.ids import check_id
from ledger.core.requests import check_message
from ledger.log.redactions import Pattern, Selection, StreamPlan, redact
from ledger.log.viewed import pages_of_streams
from ledger.session.state import SessionState
from ledger.stores.port import START, StreamKey

if TYPE_CHECKING:
    from ledger.client.context import Context
    from ledger.client.freezing import Holding


class Redacting:
    """The redactions of a ledger. A plan changes nothing, and shows what would go."""

    def __init__(self, context: Context, holds: Holding) -> None:
        self._context = context
        self._holds = holds

    async def plan(self, session_id: str, versions: Collection[int]) -> list[StreamPlan]:
        """Return the redaction of some entries of a session, with all others of their requests.

        A second plan is that of the session's project, where grants of these requests stand. Raises UnknownSessionError,
        InputError for a version that does not exist.
        """
        key = StreamKey("session", check_id(session_id, "session id"))
        own = await self._planned(key, Selection(key, versions=versions))
        head = own.folded.version
        if not head:
            raise UnknownSessionError(f"there is no session `{session_id}`", session=session_id)
        wrong = [version for version in versions if not 0 < version <= head]
        if wrong:
            raise InputError(f"session `{session_id}` has {head} versions, not {wrong[0]}", session=session_id)
        project = project_of(own)
        if project is None:
            return [own]
        of_project = StreamKey("project", project)
        granted = await self._planned(of_project, Selection(of_project, requests=_requests_of([own])))
        return [own] if granted.is_empty else [own, granted]

    async def search(
        self,
        pattern: Pattern,
        *,
        since_ms: int,
        session: str | None = None,
        project: str | None = None,
        unread: dict[StreamKey, DamageError] | None = None,
    ) -> AsyncIterator[StreamPlan]:
        """Iterate over the redactions of entries with a pattern since a time (server ms), a stream each.

        They are bounded to a session with its project, or to a project with its sessions, where one is given. Streams
        that are damaged, or lie in a lost file of the archive, are added to `unread` where it is given. Raises
        UnknownSessionError; DamageError without `unread`.
        """
        keys = await self._searched(since_ms, session)
        chosen: list[StreamPlan] = []
        projects = {key.id for key in keys if key.kind == "project"} if project is None else {project}
        for key in (one for one in keys if one.kind != "project" and (project is None or one.kind == "session")):
            plan = await self._planned_if_whole(key, Selection(key, pattern=pattern, since_ms=since_ms), unread)
            if plan is None:
                continue
            own = project_of(plan)
            if session is not None:
                projects = set() if own is None else {own}
            if not plan.is_empty and (project is None or own == project):
                chosen.append(plan)
                yield plan
        for key in sorted(StreamKey("project", one) for one in projects):
            requests = _requests_of([plan for plan in chosen if project_of(plan) == key.id])
            selection = Selection(key, pattern=pattern, since_ms=since_ms, requests=requests)
            plan = await self._planned_if_whole(key, selection, unread)
            if plan is not None and not plan.is_empty:
                yield plan

    async def redact(self, plan: StreamPlan, *, reason: str, actor: Actor | str | None = None) -> list[int]:
        """Take out what is planned, and record who did and why; return the versions.

        A sealed session is written to a new file. What older files of the archive hold of it is removed by `redact` of
        the command line, and by `Sweeping` (`ledger.log.archive.sweeping`).

        Raises OnHoldError under a legal hold, SetupError where the server does not permit it, InDoubtError.
        """
        said = check_message(reason, "reason")
        if not said:
            raise InputError("give the reason: it is recorded with the redaction")
        masks = self._context.streams.masks
        await self.require_not_held(plan)
        return await redact(
            self._context.store,
            plan,
            actor=self._context.actor(actor, "person"),
            reason=said if masks is None else masks.text(said),
        )

    async def require_not_held(self, plan: StreamPlan) -> None:
        """Raise OnHoldError where a legal hold forbids a redaction. Raises StoreError, NewerSchemaError."""
        session = plan.key.id if plan.key.kind == "session" else None
        await self._holds.require_none(session=session, project=project_of(plan))

    async def _searched(self, since_ms: int, session: str | None) -> list[StreamKey]:
        """Return the streams that have entries since a time; of a session only its own."""
        if session is not None:
            key = StreamKey("session", check_id(session, "session id"))
            (head,) = await self._context.store.heads([key])
            if head.at == START:
                raise UnknownSessionError(f"there is no session `{session}`", session=session)
            return [key]
        found: set[StreamKey] = set()
        async for some in pages_of_streams(self._context.store, None):
            heads = await self._context.store.heads(some)
            # A project's stream may hold older grants of the requests that are found.
            found.update(
                key for key, head in zip(some, heads, strict=True) if key.kind == "project" or head.at.ms >= since_ms
            )
        return sorted(found)

    async def _planned_if_whole(
        self, key: StreamKey, selection: Selection, unread: dict[StreamKey, DamageError] | None
    ) -> StreamPlan | None:
        """Read a stream, or note in `unread` why it cannot be. Raises DamageError without `unread`."""
        try:
            return await self._planned(key, selection)
        except DamageError as error:
            if unread is None:
                raise
            unread[key] = error
            return None

    async def _planned(self, key: StreamKey, selection: Selection) -> StreamPlan:
        """Read a stream. Raises DamageError: what is damaged is not rewritten."""
        streams = self._context.streams
        if key.has_calls:
            await (streams.session(key.id) if key.kind == "session" else streams.project(key.id)).refresh()
        plan = StreamPlan(key, selection)
        await plan.read(self._context.store)
        return plan


def project_of(plan: StreamPlan) -> str | None:
    """Return the project of a planned session's stream, or of a planned project's."""
    state = plan.folded.state
    if plan.key.kind == "project":
        return plan.key.id
    return state.project if isinstance(state, SessionState) else None


def _requests_of(plans: Iterable[StreamPlan]) -> list[tuple[str, str]]:
    return [(plan.key.id, request_id) for plan in plans for request_id in sorted(plan.selection.requests)]
