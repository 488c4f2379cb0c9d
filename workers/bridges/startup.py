"""The start of a bridge: its rules are read, and one line names gateway, ledger and rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from workers.bridges.options import BridgeOptions, check_rules
from workers.bridges.stdio import tell
from workers.transport.errors import UnreachableError
from workers.transport.gateway_client import GatewayClient


def run_bridge(options: BridgeOptions, run: Callable[[GatewayClient], Awaitable[int]]) -> int:
    """Run a bridge to its end and return its exit code. Raises BridgeError for rules that cannot be read."""
    check_rules(options)

    async def bridged() -> int:
        async with GatewayClient(grace=options.grace, tell=tell) as client:
            await announce(client, options)
            return await run(client)

    return asyncio.run(bridged())


def announce_alone(options: BridgeOptions) -> None:
    """Announce as `run_bridge` does, before another program replaces this one. Raises BridgeError likewise."""
    check_rules(options)

    async def announced() -> None:
        async with GatewayClient(grace=0) as client:
            await announce(client, options)

    asyncio.run(announced())


async def announce(client: GatewayClient, options: BridgeOptions) -> None:
    """Report whether gateway and ledger are reachable, and which rules judge."""
    rules = "the gateway's own" if options.rules is None else f"`{options.rules}`, found"
    try:
        found = f"gateway: `{await client.look()}`, found; ledger: found"
    except UnreachableError as error:
        meanwhile = "left to the agent's own prompt" if options.on_unreachable == "agent" else "denied"
        found = f"gateway: not found, calls are {meanwhile}: {error.text}"
    tell(f"{found}; rules: {rules}")
