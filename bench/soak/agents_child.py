"""Agents of the Python API as one process: `python -m bench.soak.agents_child URL NAME COUNT SPEED`."""

from __future__ import annotations

import asyncio
import random
import sys

from bench.soak.day import (
    CALLS_COUNT,
    CLOSED_SHARE,
    KINDS,
    LATE_SHARE,
    PROJECTS_COUNT,
    RULES,
    WITHDRAWN,
    Day,
    chosen,
    command_of,
)
from bench.soak.telling import tell_asked, tell_error, tell_told, until_stopped
from ledger import Ledger, LedgerError, Result, Session


class Agent:
    """One agent: a session after the other, a call after the other."""

    def __init__(self, ledger: Ledger, name: str, day: Day) -> None:
        self._ledger = ledger
        self._name = name
        self._day = day
        self._chance = random.Random(name)
        self._count = 0

    async def live(self) -> None:
        while True:
            self._count += 1
            try:
                await self._session(f"{self._name}-{self._count}")
            except LedgerError as error:
                tell_error(error.code)
            if self._count > 1 and self._chance.random() < LATE_SHARE:
                await self._late()

    async def _session(self, session_id: str) -> None:
        session = await self._ledger.session(
            session_id,
            project=f"soak-{self._count % PROJECTS_COUNT}",
            agent="agent",
            rules=RULES,
            timeouts=self._day.timeouts,
            claim_timeout=self._day.claim_seconds,
        )
        for number in range(CALLS_COUNT):
            await self._call(session, f"{session_id}-{number}")
            await self._think()
        if self._chance.random() < CLOSED_SHARE:
            await session.close()

    async def _call(self, session: Session, request_id: str) -> None:
        kind = chosen(self._chance, KINDS)
        command = command_of(request_id, kind)
        tell_asked(session.id, request_id)
        result = await session.submit("bash", [command], always=[command], request_id=request_id)
        if kind == WITHDRAWN:
            await self._think()
            result = await self._withdrawn(session, request_id)
        else:
            result = await session.wait(request_id)
        assert result.outcome is not None
        tell_told(session.id, request_id, result.outcome, result.request.version)
        if result.allowed:
            claim = await session.claim(request_id)
            await self._think()
            await session.finish(request_id, claim.claim_id, ok=True, output=command)

    async def _withdrawn(self, session: Session, request_id: str) -> Result:
        try:
            return await session.cancel(request_id)
        except LedgerError as error:
            # A person was faster, or the deadline was.
            if error.code not in {"ALREADY_ANSWERED", "PERMISSION_STALE"}:
                raise
            return await session.result(request_id)

    async def _late(self) -> None:
        """Write to an older session, which comes back by itself if it was sealed."""
        older = Session(self._ledger, f"{self._name}-{self._chance.randrange(1, self._count)}")
        await older.note_tool_finished(call_id=f"late-{self._count}", ok=True)

    async def _think(self) -> None:
        await asyncio.sleep(self._day.thought(self._chance))


async def main(url: str, name: str, count: int, speed: float) -> None:
    async with Ledger.connect(url, actor=name, entry_points=False) as ledger:
        agents = [Agent(ledger, f"{name}.{number}", Day(speed)) for number in range(count)]
        await until_stopped([asyncio.create_task(agent.live()) for agent in agents])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
