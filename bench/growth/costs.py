"""The server's memory for one more of each thing: in the log, and in the views."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bench.growth.crowds import at_once
from bench.growth.filling import tell, until_projected
from bench.growth.lives import RULES
from bench.growth.rows import Figures
from bench.growth.server_memory import ServerMemory, server_memory
from bench.place import Place, child
from ledger import Session

COUNT, COUNT_QUICK = 2_000, 20


class Costs:
    """Many sessions that live through the same, step by step; memory is measured after each step."""

    def __init__(self, place: Place, figures: Figures) -> None:
        self._place = place
        self._figures = figures
        self._count = COUNT_QUICK if place.quick else COUNT
        self._sessions: dict[int, Session] = {}

    async def measure(self) -> None:
        steps: dict[str, Callable[[int], Awaitable[Any]]] = {
            "session": self._open,
            "allowed": lambda number: self._sessions[number].ask("bash", [f"git show {number}"]),
            "pending": lambda number: self._sessions[number].submit("bash", ["npm test"], request_id=_request(number)),
            "answered": lambda number: self._sessions[number].reply(_request(number), "once", actor="ann"),
            "run": self._run,
            "grant": lambda number: self._sessions[number].grant("bash", f"make target-{number} *", actor="ann"),
            "closed": lambda number: self._sessions[number].close(),
            "project grant": lambda number: self._place.ledger.grant_in_project(
                f"project-{number % 40}", "bash", f"make target-{number} *", actor="ann"
            ),
        }
        async with child("workers.cli", "worker", "projector", "--url", self._place.url):
            before = await self._measured()
            for kind, step in steps.items():
                tell(f"memory of: {kind}")
                await at_once(step, 0, self._count)
                after = await self._measured()
                for where, bytes_more in (
                    ("log", after.log - before.log),
                    ("views", after.views - before.views),
                ):
                    self._figures.add(f"{kind} {where}", self._count, bytes_more / self._count)
                before = after

    async def _measured(self) -> ServerMemory:
        await until_projected(self._place.ledger.store)
        return await server_memory(self._place, 0)

    async def _open(self, number: int) -> None:
        self._sessions[number] = await self._place.ledger.session(
            f"ses_{number:08d}", project=f"project-{number % 40}", agent="agent", rules=RULES
        )

    async def _run(self, number: int) -> None:
        claim = await self._sessions[number].claim(_request(number))
        await self._sessions[number].finish(_request(number), claim.claim_id)


def _request(number: int) -> str:
    return f"per_{number:026d}"
