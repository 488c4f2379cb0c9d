"""Freezes ("stop everything") and legal holds ("redact nothing") of the ledger, of a project or of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.access.freeze import (
    EndFreeze,
    HoldCommand,
    HoldReach,
    HoldState,
    LegalHold,
    LiftHold,
    PlaceHold,
    StartFreeze,
    require_no_hold,
)
from ledger.core.errors import InDoubtError, InputError
from ledger.core.events import Actor
from ledger.core.freezes import Freeze
from ledger.core.ids import check_id
from ledger.core.requests import check_message
from ledger.log.freezes import Freezes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ledger.client.context import Context
    from ledger.client.lookups import WaitingSessions


class Freezing:
    """The freezes of a ledger. While one is in force, nothing is allowed or claimed within its reach."""

    def __init__(self, context: Context, waiting: WaitingSessions) -> None:
        self._context = context
        self._waiting = waiting
        self._freezes: Freezes = context.streams.freezes

    async def freeze(
        self, project: str | None = None, *, reason: str | None = None, actor: Actor | str | None = None
    ) -> Freeze:
        """Freeze the whole ledger, or a project; return the freeze, which may be an earlier one.

        After the return nothing is allowed or claimed there, by any process and after any failover. Raises InDoubtError
        where that is not certain yet (not all partitions have it, or not confirmed): repeat the command.
        """
        project = None if project is None else check_id(project, "project id")
        await self._freezes.repair()
        command = StartFreeze(
            actor=self._context.actor(actor, "person"), project=project, reason=check_message(reason, "reason")
        )
        await self._written(command)
        found = self._freezes.state.over(project)
        if found is not None and found.project == project:
            return found
        return next(one for one in self._freezes.state.in_force() if one.project == project)

    async def unfreeze(
        self, project: str | None = None, *, reason: str | None = None, actor: Actor | str | None = None
    ) -> Freeze | None:
        """End the freeze of the whole ledger, or of a project; return it, None where there was none.

        Requests that only the freeze held back are judged again; those that wait for a person go on waiting. Other
        freezes that cover them stay in force.
        """
        project = None if project is None else check_id(project, "project id")
        await self._freezes.repair()
        ended = next((one for one in self._freezes.state.in_force() if one.project == project), None)
        command = EndFreeze(
            actor=self._context.actor(actor, "person"), project=project, reason=check_message(reason, "reason")
        )
        await self._written(command)
        await self._waiting.resume(project)
        return ended

    async def in_force(self) -> tuple[Freeze, ...]:
        """Return the freezes in force, read from the server: that of the whole ledger, then those of projects."""
        return (await self._freezes.refresh()).in_force()

    async def behind(self) -> list[int]:
        """Return the partitions whose flag is older than the stream of freezes, and does not stop all that it should.

        A flag that was not compared with the stream since its server took over is not among them: it allows nothing.
        """
        state = await self._freezes.refresh()
        if not state.version:
            return []
        at = self._freezes.stream.position
        flags = await self._context.store.flags()
        return [number for number, flag in enumerate(flags) if flag is not None and flag.verified and flag.at < at]

    async def _written(self, command: StartFreeze | EndFreeze) -> None:
        await self._freezes.stream.submit(command)
        await self._freezes.stream.make_safe()
        await self._freezes.raise_flags()


class Holding:
    """The legal holds of a ledger. While one is in force, nothing within its reach is redacted."""

    def __init__(self, context: Context, attach: Callable[[str], Awaitable[object]]) -> None:
        self._context = context
        self._attach = attach
        self._stream = context.streams.holds()

    async def place(
        self, *, project: str | None = None, session: str | None = None, reason: str, actor: Actor | str | None = None
    ) -> LegalHold:
        """Place a hold on a project with all of its sessions, or on one session; return it, or the one it has already.

        A redaction that begins after the return is refused. Raises UnknownSessionError, and InputError unless exactly
        one of the two and a reason are given. Raises InDoubtError where it is not confirmed yet: repeat the command.
        """
        reach = _reach(project, session)
        if session is not None:
            await self._attach(session)
        why = check_message(reason, "reason")
        if not why:
            raise InputError("a hold needs its reason")
        state = await self._written(PlaceHold(actor=self._context.actor(actor, "person"), reach=reach, reason=why))
        placed = state.holds.get(reach)
        if placed is None:
            raise InDoubtError(f"{reach.place}: the hold was lifted in the same moment; repeat the command")
        return placed

    async def lift(
        self,
        *,
        project: str | None = None,
        session: str | None = None,
        reason: str | None = None,
        actor: Actor | str | None = None,
    ) -> LegalHold | None:
        """Lift the hold of a project, or of a session; return it, None where there was none.

        Other holds that cover it stay in force. Raises InputError unless exactly one of the two is given.
        """
        reach = _reach(project, session)
        ended = (await self._refreshed()).holds.get(reach)
        await self._written(
            LiftHold(actor=self._context.actor(actor, "person"), reach=reach, reason=check_message(reason, "reason"))
        )
        return ended

    async def in_force(self) -> tuple[LegalHold, ...]:
        """Return the holds in force, read from the server: those of projects, then those of sessions."""
        return (await self._refreshed()).in_force()

    async def require_none(self, *, session: str | None = None, project: str | None = None) -> None:
        """Raise OnHoldError where a hold forbids redacting a session of a project, or the project's own stream.

        Reads the holds from the server. Raises StoreError, and NewerSchemaError where it has some of a newer version.
        """
        require_no_hold(await self._refreshed(), session=session, project=project)

    async def _refreshed(self) -> HoldState:
        return await self._stream.refresh()

    async def _written(self, command: HoldCommand) -> HoldState:
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        return done.state


def _reach(project: str | None, session: str | None) -> HoldReach:
    """Return the reach. Raises InputError unless exactly one of the two is given, and for a malformed id."""
    if (project is None) == (session is None):
        raise InputError("name a project or a session, one of the two")
    if project is not None:
        return HoldReach(project=check_id(project, "project id"))
    return HoldReach(session=check_id(session, "session id"))
