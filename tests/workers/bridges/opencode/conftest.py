"""An OpenCode server, a gateway as a process, and the bridge between them in the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.support.gateways import RunningGateway, ann, gateway, killable_gateway, no_gateway
from tests.support.opencode import OpenCodeServer
from tests.support.waiting import wait_until_async
from workers.bridges.opencode.bridge import OpencodeBridge
from workers.bridges.opencode.server import OpenCode
from workers.bridges.options import BridgeOptions
from workers.transport.gateway_client import GatewayClient

__all__ = ["ann", "gateway", "killable_gateway", "no_gateway"]


class Bridged:
    """A running bridge, and its messages to the person."""

    def __init__(self, opencode: OpenCodeServer, gateway: RunningGateway) -> None:
        self.opencode = opencode
        self.gateway = gateway
        self.told: list[str] = []

    @asynccontextmanager
    async def running(self, *, directory: str | None = None, grace: float = 20, **said: Any) -> AsyncIterator[None]:
        """Until the block ends, which is as sudden for the gateway and OpenCode as a kill."""
        opencode = OpenCode(self.opencode.url)
        options = BridgeOptions(dialect="opencode", grace=grace, **said)
        async with GatewayClient(self.gateway.agent_place, grace=grace) as client:
            bridge = OpencodeBridge(opencode, client, options, directory=directory, tell=self.told.append)
            working = asyncio.create_task(bridge.run())
            try:
                await wait_until_async(lambda: self.opencode.is_followed, "the bridge to follow")
                yield
            finally:
                working.cancel()
                with suppress(asyncio.CancelledError):
                    await working
                await opencode.close()


@pytest.fixture
async def opencode() -> AsyncIterator[OpenCodeServer]:
    server = OpenCodeServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def bridged(opencode: OpenCodeServer, gateway: RunningGateway) -> Bridged:
    return Bridged(opencode, gateway)
