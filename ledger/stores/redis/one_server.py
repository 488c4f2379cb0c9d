"""Connections to a single address: one server, or the primary that sentinels name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ledger.stores.keys import Keys
from ledger.stores.redis.confirmed_link import ConfirmedLink
from ledger.stores.redis.connection import ServerConnection
from ledger.stores.redis.link import Link
from ledger.stores.redis.servers import Commands, Revive, WakeUps
from ledger.stores.redis.wake_ups import ServerWakeUps

MakeConnection = Callable[[], ServerConnection]


class OneServer:
    """An implementation of `ledger.stores.redis.servers.Servers` over one connection factory."""

    def __init__(
        self,
        connect: MakeConnection,
        *,
        link: type[Link] = Link,
        close: Callable[[], Awaitable[None]] | None = None,
        others_take_over: bool = False,
    ) -> None:
        self.others_take_over = others_take_over
        self._connect = connect
        self._link = link
        self._close = close

    def commands(self, answer_seconds: float, *, confirmed: bool = False) -> Commands:
        link = self._link(self._connect, answer_seconds)
        return ConfirmedLink(link) if confirmed else link

    def wake_ups(self, keys: Keys, revive: Revive | None) -> WakeUps:
        return ServerWakeUps(self._connect, keys, revive)

    async def close(self) -> None:
        if self._close is not None:
            await self._close()
