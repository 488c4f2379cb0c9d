"""A caller of several gateways: a call that one of them does not answer is sent again to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from bench.http_client import Connection

LOST: Final = (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError)
AGAIN_SECONDS: Final = 0.1
CALL_SECONDS: Final = 60.0
LATER_STATUSES: Final = (429, 503)


class Gateways:
    """One connection at a time; calls must be idempotent, as asks and answers with ids are."""

    def __init__(self, sockets: Sequence[str], token: str, first: int) -> None:
        self._sockets = sockets
        self._token = token
        self._turn = first
        self._connection: Connection | None = None

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and body of the first gateway that answers, other than that it is too busy."""
        while True:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    if self._connection is None:
                        socket = self._sockets[self._turn % len(self._sockets)]
                        self._connection = await Connection.open(socket, self._token)
                    status, found = await self._connection.send(method, path, body)
            except LOST:
                self.close()
                self._turn += 1
            else:
                if status not in LATER_STATUSES:
                    return status, found
            await asyncio.sleep(AGAIN_SECONDS)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
