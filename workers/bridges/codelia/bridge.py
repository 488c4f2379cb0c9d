"""Between Codelia's user interface and its runtime: questions about tools go to the ledger, the rest passes byte for byte.

Two threads carry the lines, since pipes block; the loop in between asks and waits. The events around a question
(preview, ready, awaiting, running) pass in their order; the question alone is held back.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from workers.bridges.codelia import protocol
from workers.bridges.codelia.asking import Asking
from workers.bridges.codelia.protocol import Confirm, Message
from workers.bridges.gateway_client import GatewayClient
from workers.bridges.options import Options
from workers.bridges.stdio import ClientProcess, LongLineError, host_lines, tell, write_to_host

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_WORDS_SECONDS: Final = 5.0


class Bridge:
    """One runtime, from its start to its end. `headless`: the host has nobody to ask, so what it would ask is a no."""

    def __init__(
        self, client: GatewayClient, options: Options, *, shares_grants: bool = False, headless: bool = False
    ) -> None:
        self._asking = Asking(client, options, cwd=str(Path.cwd()), shares_grants=shares_grants)
        self._headless = headless
        self._held: dict[str, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, command: Sequence[str]) -> int:
        """Run the runtime's command to its end; its exit code."""
        self._loop = asyncio.get_running_loop()
        self._runtime = ClientProcess(command)
        ended = asyncio.Event()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._runtime.send, number)
        threading.Thread(target=self._carry_to_runtime, daemon=True).start()
        threading.Thread(target=self._carry_to_host, args=(ended,), daemon=True).start()
        await ended.wait()
        code = await asyncio.to_thread(self._runtime.wait)
        self._start(self._end())
        await asyncio.wait(self._tasks, timeout=_LAST_WORDS_SECONDS)
        return code

    async def _end(self) -> None:
        await self._asking.withdraw("asker_died")

    # --- host to runtime, in a thread --------------------------------------------------------------------------------

    def _carry_to_runtime(self) -> None:
        try:
            for line in host_lines():
                message = protocol.parse(line)
                if line.strip() and message is None:
                    tell("a line of the host is left out: it is no JSON object")
                    continue
                passed = line if message is None else self._said(message, line)
                if passed is not None:
                    self._runtime.write(passed)
                if message is not None and message.get("method") == "run.cancel":
                    self._on_loop(self._cancel, protocol.params_of(message).get("run_id"))
        except LongLineError as error:
            tell(str(error))
        self._runtime.close_stdin()

    def _said(self, message: Message, line: bytes) -> bytes | None:
        """What of a host's line the runtime gets."""
        method = message.get("method")
        if method is None:
            if self._asking.has(message.get("id")):
                tell("an answer of the host is left out: the ledger decides that request")
                return None
        elif method == "run.start":
            self._on_loop(self._asking.use_session, protocol.params_of(message).get("session_id"))
        elif method == "initialize" and self._headless:
            return protocol.line_of(protocol.with_confirm(message))
        return line

    # --- runtime to host, in a thread --------------------------------------------------------------------------------

    def _carry_to_host(self, ended: asyncio.Event) -> None:
        try:
            for line in self._runtime.lines():
                if self._is_for_host(line):
                    write_to_host(line)
        except (BrokenPipeError, LongLineError) as error:
            if isinstance(error, LongLineError):
                tell(str(error))
            self._runtime.close_stdout()
        self._on_loop(ended.set)

    def _is_for_host(self, line: bytes) -> bool:
        message = protocol.parse(line)
        if message is None:
            return True
        if message.get("method") == "agent.event":
            work = self._asking.hear(message)
            if work is not None:
                self._on_loop(self._begin_work, work)
        elif protocol.is_confirm(message):
            return self._asked(message, line)
        return True

    def _asked(self, message: Message, line: bytes) -> bool:
        """Whether the host is to answer this question."""
        if self._asking.has(message["id"]):
            return False  # asked twice under one id it is one question
        confirm = self._asking.take(message)
        if confirm is None:
            if self._headless:
                self._runtime.write(protocol.refusal(message["id"], "nobody is there to answer this"))
            return not self._headless
        # The call is looked up here, where lines come in their order.
        call = self._asking.call_asked(confirm)
        self._held[protocol.key_of(confirm.rpc_id)] = line
        self._on_loop(self._asking.begin, confirm, call, self._answered)
        return False

    # --- on the loop -------------------------------------------------------------------------------------------------

    def _on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the bridge
            self._loop.call_soon_threadsafe(function, *arguments)

    async def _answered(self, confirm: Confirm, answer: bytes | None) -> None:
        """Pass an answer to the runtime, or, without one, the question to the host."""
        line = self._held.pop(protocol.key_of(confirm.rpc_id))
        if answer is None and not self._headless:
            await asyncio.to_thread(write_to_host, line)
            return
        nobody = protocol.refusal(confirm.rpc_id, "denied, because nobody could be asked: the ledger does not answer")
        await asyncio.to_thread(self._runtime.write, answer or nobody)

    def _cancel(self, run_id: object) -> None:
        if isinstance(run_id, str):
            self._start(self._withdraw(run_id))

    async def _withdraw(self, run_id: str) -> None:
        """The runtime itself waits on after a cancel, so it is told no: without a reason, which ends the turn."""
        for confirm in await self._asking.withdraw("asker_gave_up", run_id):
            self._held.pop(protocol.key_of(confirm.rpc_id), None)
            await asyncio.to_thread(self._runtime.write, protocol.refusal(confirm.rpc_id))

    def _begin_work(self, work: Callable[[], Awaitable[None]]) -> None:
        async def done() -> None:
            await work()

        self._start(done())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
