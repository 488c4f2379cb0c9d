"""A person as a process: `python -m bench.soak.people_child URL NAME SPEED TOKEN SOCKET…`.

In one shift the answers come from a connected inbox of the Python API, in the next through the gateways, by a person
who is not connected.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from bench.soak.day import REPLIES, SHIFT_SECONDS, Day, chosen, is_ignored
from bench.soak.gateways import Gateways
from bench.soak.telling import tell_error, tell_told, until_stopped
from ledger import Ledger, LedgerError
from ledger.core.limits import LEASE_MS

LOOK_SECONDS: Final = 0.2
PAGE_COUNT: Final = 200
RENEWED_SECONDS: Final = LEASE_MS / 3000
LOST_RACES: Final = ("ALREADY_ANSWERED", "PERMISSION_STALE")
"""Another person, the deadline or the agent was first."""


class Person:
    """Answers what is pending, but what nobody answers."""

    def __init__(self, ledger: Ledger, gateways: Gateways, name: str, day: Day) -> None:
        self._ledger = ledger
        self._gateways = gateways
        self._name = name
        self._client = f"inbox-{name}"
        self._day = day
        self._chance = random.Random(name)

    async def live(self) -> None:
        while True:
            await self._connected()
            await self._away()

    async def _connected(self) -> None:
        try:
            await self._ledger.connect_inbox(self._client, actor=self._name)
            renewed = time.monotonic()
            async for _ in self._shift():
                if time.monotonic() - renewed > RENEWED_SECONDS:
                    await self._ledger.renew_inbox(self._client, actor=self._name)
                    renewed = time.monotonic()
                for one in await self._ledger.pending():
                    await self._reply(one.session, one.request.request_id)
            await self._ledger.disconnect_inbox(self._client, actor=self._name)
        except LedgerError as error:
            tell_error(error.code)

    async def _reply(self, session: str, request_id: str) -> None:
        if is_ignored(request_id):
            return
        await self._think()
        try:
            result = await self._ledger.reply(request_id, chosen(self._chance, REPLIES), session_id=session)
            assert result.outcome is not None
            tell_told(session, request_id, result.outcome, result.request.version)
        except LedgerError as error:
            if error.code not in LOST_RACES:
                tell_error(error.code)

    async def _away(self) -> None:
        async for _ in self._shift():
            status, found = await self._gateways.send("GET", f"/v1/pending?limit={PAGE_COUNT}")
            if status != 200:
                tell_error(f"{status} {found.get('code')}")
                continue
            for one in found["pending"]:
                await self._send(one["session"], one["request_id"])

    async def _send(self, session: str, request_id: str) -> None:
        if is_ignored(request_id):
            return
        await self._think()
        body = {"reply": chosen(self._chance, REPLIES)}
        status, found = await self._gateways.send("POST", f"/v1/sessions/{session}/asks/{request_id}/reply", body)
        if status == 200:
            tell_told(session, request_id, found["outcome"])
        elif found.get("code") not in LOST_RACES:
            tell_error(f"{status} {found.get('code')}")

    async def _think(self) -> None:
        # A person looks through many requests in the time of one call.
        await asyncio.sleep(self._day.thought(self._chance) / 20)

    async def _shift(self) -> AsyncIterator[None]:
        until = time.monotonic() + self._day.seconds(SHIFT_SECONDS)
        while time.monotonic() < until:
            yield
            await asyncio.sleep(LOOK_SECONDS)


async def main(url: str, name: str, speed: float, token: str, sockets: Sequence[str]) -> None:
    async with Ledger.connect(url, actor=name, entry_points=False) as ledger:
        person = Person(ledger, Gateways(sockets, token, 0), name, Day(speed))
        await until_stopped([asyncio.create_task(person.live())])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4], sys.argv[5:]))
