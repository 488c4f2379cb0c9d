"""The claims of one connection between an agent and its session: taken right before the agent is told "allow"."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from workers.bridges.session_ids import new_id
from workers.transport.errors import BridgeError
from workers.transport.gateway_client import GatewayClient, Row

WRITING_SECONDS: Final = 3.0
"""The time limit for giving claims back and ending them at the gateway."""

HELD_COUNT_MAX: Final = 4096
"""The number of claims remembered as held; an agent may never tell the end of a call."""

AGENT_CHARS_MAX: Final = 100
NOT_TOLD: Final = "the agent no longer waited, and was not told to run it"
NOT_AS_CORRECTED: Final = "the agent takes no corrected call, and was not told to run it"


class HeldClaims:
    """The claims of a connection, by the agent's ids of the calls. The connection is the runner of them all."""

    def __init__(self, client: GatewayClient, session: str, agent: str) -> None:
        self._client = client
        self._session = session
        self._name = new_id(f"{agent[:AGENT_CHARS_MAX]} over bridge")
        self._held: dict[str, str] = {}

    def runner_of(self, call_id: str) -> dict[str, str]:
        """Return the runner for the body of an ask, which claims the call as soon as it is allowed."""
        return {"name": self._name, "call": call_id}

    def keep(self, call_id: str, row: Row) -> Row:
        """Remember the claim in the row of an ask with the runner, if it has one."""
        if row["outcome"] == "allowed" and row.get("claim"):
            self._held[call_id] = row["request_id"]
            if len(self._held) > HELD_COUNT_MAX:
                del self._held[next(iter(self._held))]
        return row

    async def take(self, call_id: str, row: Row) -> Row:
        """Claim an allowed request that was asked without the runner: by an earlier asker, or answered elsewhere.

        Raises GatewayRefusalError where it may not run, UnreachableError.
        """
        if row["outcome"] != "allowed":
            return row
        claim = await self._client.claim(self._session, row["request_id"], self.runner_of(call_id))
        return self.keep(call_id, {**row, "claim": claim})

    async def give_back(self, call_id: str, reason: str = NOT_TOLD) -> None:
        """Release the claim of a call that the agent was not told to run. Without such a claim nothing happens."""
        asked = self._held.pop(call_id, None)
        if asked is not None:
            with suppress(BridgeError, TimeoutError):
                async with asyncio.timeout(WRITING_SECONDS):
                    await self._client.release(self._session, asked, reason)

    def asked_of(self, call_id: str) -> str | None:
        """Return the ledger's request of a call whose claim this connection holds; None without a claim."""
        return self._held.get(call_id)

    def ended(self, request_id: str) -> None:
        """Forget the claim of a request whose end is noted in the ledger."""
        for call_id in [one for one, asked in self._held.items() if asked == request_id]:
            del self._held[call_id]

    async def agent_ended(self) -> None:
        """End all claims: the agent has ended, and will not tell how its calls did."""
        if not self._held:
            return
        self._held.clear()
        with suppress(BridgeError, TimeoutError):
            async with asyncio.timeout(WRITING_SECONDS):
                await self._client.end_claims(self._session, self._name)
