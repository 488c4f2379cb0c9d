"""Freezes of the whole ledger or of a project: "stop everything"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.access.freeze import EndFreeze, StartFreeze
from ledger.core.events import Actor
from ledger.core.freezes import Freeze
from ledger.core.ids import check_id
from ledger.core.requests import check_message
from ledger.log.freezes import Freezes

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger


class Freezing:
    """The freezes of a ledger. While one is in force, nothing is allowed or claimed within its reach."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._freezes: Freezes = ledger.streams.freezes

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
            actor=self._ledger.actor(actor, "person"), project=project, reason=check_message(reason, "reason")
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
            actor=self._ledger.actor(actor, "person"), project=project, reason=check_message(reason, "reason")
        )
        await self._written(command)
        await self._ledger.waiting.resume(project)
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
        flags = await self._ledger.store.flags()
        return [number for number, flag in enumerate(flags) if flag is not None and flag.verified and flag.at < at]

    async def _written(self, command: StartFreeze | EndFreeze) -> None:
        await self._freezes.stream.submit(command)
        await self._freezes.stream.make_safe()
        await self._freezes.raise_flags()
