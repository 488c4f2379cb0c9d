"""Between Codelia's user interface and its runtime: questions about tools go to the ledger, the rest passes byte for byte.

The events around a question (preview, ready, awaiting, running) pass in their order; the question alone is held back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from workers.bridges.codelia import protocol
from workers.bridges.codelia.protocol import Confirm
from workers.bridges.codelia.requests import CodeliaRequests
from workers.bridges.messages import Message, line_of, parse
from workers.bridges.options import BridgeOptions
from workers.bridges.pipes import Carrier
from workers.bridges.rpc import key_of
from workers.bridges.stdio import tell
from workers.transport.gateway_client import GatewayClient


class CodeliaBridge:
    """One runtime, from its start to its end. `headless`: the host has no user, so every question to it is denied."""

    def __init__(
        self, client: GatewayClient, options: BridgeOptions, *, shares_grants: bool = False, headless: bool = False
    ) -> None:
        self._asking = CodeliaRequests(client, options, cwd=str(Path.cwd()), shares_grants=shares_grants)
        self._headless = headless
        self._held: dict[str, bytes] = {}

    async def run(self, command: Sequence[str]) -> int:
        """Run the runtime's command to its end, and return its exit code."""
        self._carrier = Carrier(command)
        await self._carrier.carry(self._hear_host, self._hear_runtime)
        code = await self._carrier.ended()
        await self._carrier.last_words()
        self._carrier.start(self._asking.end())
        await self._carrier.last_words()
        return code

    # --- host to runtime, in a thread --------------------------------------------------------------------------------

    def _hear_host(self, line: bytes) -> None:
        message = parse(line)
        if line.strip() and message is None:
            tell("a line of the host is dropped: it is not a JSON object")
            return
        passed = line if message is None else self._said(message, line)
        if passed is not None:
            self._carrier.to_client(passed)
        if message is not None and message.get("method") == "run.cancel":
            self._carrier.on_loop(self._cancel, protocol.params_of(message).get("run_id"))

    def _said(self, message: Message, line: bytes) -> bytes | None:
        """Return the line for the runtime."""
        method = message.get("method")
        if method is None:
            if self._asking.has(message.get("id")):
                tell("an answer of the host is dropped: the ledger decides that request")
                return None
        elif method == "run.start":
            self._carrier.on_loop(self._asking.use_session, protocol.params_of(message).get("session_id"))
        elif method == "initialize" and self._headless:
            return line_of(protocol.with_confirm(message))
        return line

    # --- runtime to host, in a thread --------------------------------------------------------------------------------

    def _hear_runtime(self, line: bytes) -> None:
        if self._is_for_host(line):
            self._carrier.to_host(line)

    def _is_for_host(self, line: bytes) -> bool:
        message = parse(line)
        if message is None:
            return True
        if message.get("method") == "agent.event":
            work = self._asking.hear(message)
            if work is not None:
                self._carrier.on_loop(self._begin_work, work)
        elif protocol.is_confirm(message):
            return self._asked(message, line)
        return True

    def _asked(self, message: Message, line: bytes) -> bool:
        """Return whether the host has to answer this question."""
        if self._asking.has(message["id"]):
            return False  # a repeated id is the same question
        confirm = self._asking.take(message)
        if confirm is None:
            if self._headless:
                self._carrier.to_client(protocol.refusal(message["id"], "nobody is there to answer this"))
            return not self._headless
        # Looked up here, in the order of the lines.
        call = self._asking.call_asked(confirm)
        self._held[key_of(confirm.rpc_id)] = line
        self._carrier.on_loop(self._asking.begin, confirm, call, self._answered)
        return False

    # --- on the loop -------------------------------------------------------------------------------------------------

    async def _answered(self, confirm: Confirm, answer: bytes | None) -> None:
        """Pass an answer to the runtime, or, without one, the question to the host."""
        line = self._held.pop(key_of(confirm.rpc_id))
        if answer is None and not self._headless:
            await self._carrier.tell_host(line)
            return
        nobody = protocol.refusal(confirm.rpc_id, "denied, because nobody could be asked: the ledger does not answer")
        await self._carrier.tell_client(answer or nobody)

    def _cancel(self, run_id: object) -> None:
        if isinstance(run_id, str):
            self._carrier.start(self._withdraw(run_id))

    async def _withdraw(self, run_id: str) -> None:
        """Deny open questions after a cancel, since the runtime waits on: without a reason, which ends the turn."""
        for confirm in await self._asking.withdraw("asker_gave_up", run_id):
            self._held.pop(key_of(confirm.rpc_id), None)
            await self._carrier.tell_client(protocol.refusal(confirm.rpc_id))

    def _begin_work(self, work: Callable[[], Awaitable[None]]) -> None:
        async def done() -> None:
            await work()

        self._carrier.start(done())
