"""Agents over HTTP as one process: `python -m bench.soak.http_agents_child NAME COUNT SPEED TOKEN SOCKET…`."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from typing import Any, Final

from bench.soak.day import (
    CALLS_COUNT,
    CLAIM_SECONDS,
    CLOSED_SHARE,
    KINDS,
    PROJECTS_COUNT,
    RULES,
    UNATTENDED_SECONDS,
    Day,
    chosen,
    command_of,
)
from bench.soak.gateways import Gateways
from bench.soak.telling import tell_asked, tell_error, tell_told, until_stopped

PENDING: Final = 202
WAIT_SECONDS: Final = 10


class HttpAgent:
    """One agent: a session after the other, a call after the other; a repeated call attaches to the first."""

    def __init__(self, gateways: Gateways, name: str, day: Day) -> None:
        self._gateways = gateways
        self._name = name
        self._day = day
        self._chance = random.Random(name)
        self._count = 0

    async def live(self) -> None:
        while True:
            self._count += 1
            await self._session(f"{self._name}-{self._count}")

    async def _session(self, session: str) -> None:
        opening = {
            "project": f"soak-{self._count % PROJECTS_COUNT}",
            "rules": RULES,
            "timeouts": {
                "unattended": self._day.text(UNATTENDED_SECONDS),
                "cap": self._day.text(2 * UNATTENDED_SECONDS),
            },
            "claim_timeout": self._day.text(CLAIM_SECONDS),
        }
        if await self._done("PUT", f"/v1/sessions/{session}", opening) is None:
            return
        for number in range(CALLS_COUNT):
            await self._call(session, f"{session}-{number}")
            await self._think()
        if self._chance.random() < CLOSED_SHARE:
            await self._done("POST", f"/v1/sessions/{session}/close", {})

    async def _call(self, session: str, request_id: str) -> None:
        command = command_of(request_id, chosen(self._chance, KINDS))
        place = f"/v1/sessions/{session}/asks"
        body = {"permission": "bash", "patterns": [command], "always": [command], "request_id": request_id}
        tell_asked(session, request_id)
        found = await self._done("POST", f"{place}?wait={WAIT_SECONDS}", body)
        while found is not None and found["outcome"] is None:
            found = await self._done("GET", f"{place}/{request_id}?wait={WAIT_SECONDS}")
        if found is None:
            return
        tell_told(session, request_id, found["outcome"])
        if found["outcome"] == "allowed" and await self._done(
            "POST", f"{place}/{request_id}/claim", {"runner": self._name}
        ):
            await self._think()
            await self._done("POST", f"{place}/{request_id}/finish", {"runner": self._name, "output": command})

    async def _done(self, method: str, path: str, body: Any = None) -> Any:
        """Return the body of an answer; None for an error, which is told."""
        status, found = await self._gateways.send(method, path, body)
        if status < 300:
            return found or {}
        tell_error(f"{status} {(found or {}).get('code')}")
        return None

    async def _think(self) -> None:
        await asyncio.sleep(self._day.thought(self._chance))


async def main(name: str, count: int, speed: float, token: str, sockets: Sequence[str]) -> None:
    agents = [HttpAgent(Gateways(sockets, token, number), f"{name}.{number}", Day(speed)) for number in range(count)]
    await until_stopped([asyncio.create_task(agent.live()) for agent in agents])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5:]))
