"""One process of a journey: executes commands from stdin on a ledger of its own, and prints their results.

A line is a JSON object `{"n", "on", "do", "args", "named"}`: call this method of the session `on` (of the ledger where
it is null). The answer is `{"n", "result"}` or `{"n", "error"}`. Calls run concurrently.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import ledger
from ledger import ClientConnection, Ledger, LedgerError, Session, Timeouts


class Player:
    def __init__(self, opened: Ledger) -> None:
        self._ledger = opened
        self._sessions: dict[str, Session] = {}
        self._connections: dict[tuple[str, str], ClientConnection] = {}

    async def perform(self, told: dict[str, Any]) -> None:
        try:
            answer = {"result": as_json(await self._call(told))}
        except LedgerError as error:
            answer = {"error": error.as_json()}
        say({"n": told["n"], **answer})

    async def _call(self, told: dict[str, Any]) -> Any:
        name, on = told["do"], told["on"]
        own = getattr(self, f"do_{name}", None)
        if own is not None:
            return await own(on, *told["args"], **told["named"])
        held: Any = self._ledger if on is None else self._session(on)
        return await getattr(held, name)(*told["args"], **told["named"])

    def _session(self, session_id: str) -> Session:
        return self._sessions.setdefault(session_id, Session(self._ledger, session_id))

    async def do_open(self, on: str, *, timeouts: dict[str, Any] | None = None, **named: Any) -> None:
        given = None if timeouts is None else Timeouts(**timeouts)
        self._sessions[on] = await self._ledger.session(on, timeouts=given, **named)

    async def do_events(self, on: str) -> list[Any]:
        return [event async for event in self._session(on).events(follow_on=False)]

    async def do_connect(self, on: str, client_id: str, actor: str) -> list[Any]:
        connection = await self._session(on).connect(client_id, actor=actor)
        self._connections[on, client_id] = await connection.__aenter__()
        return connection.replayed

    async def do_disconnect(self, on: str, client_id: str) -> None:
        await self._connections.pop((on, client_id)).disconnect()

    async def do_reply_as(self, on: str, client_id: str, *args: Any, **named: Any) -> Any:
        return await self._connections[on, client_id].reply(*args, **named)

    async def do_settled(self, on: str) -> int:
        """Return how many requests of the session have ended."""
        return len((await self._session(on).state()).settled)

    async def do_imported_from(self, on: None) -> str:
        return str(Path(ledger.__file__).parents[1])

    async def do_due_count(self, on: None) -> int:
        return len(await self._ledger.store.due(None, 100_000))

    async def do_now_ms(self, on: None) -> int:
        return await self._ledger.store.now_ms()


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def as_json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return value.as_json() if hasattr(value, "as_json") else value


async def main(url: str, actor: str) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    async with Ledger.connect(url, actor=actor) as opened:
        player = Player(opened)
        say({"n": 0, "result": "ready"})
        performing: set[asyncio.Task[None]] = set()
        while line := await told.readline():
            task = asyncio.create_task(player.perform(json.loads(line)))
            performing.add(task)
            task.add_done_callback(performing.discard)
        for task in performing:
            task.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*sys.argv[1:]))
