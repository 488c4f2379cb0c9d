"""Between a host and Claude Code: permission requests go to the ledger, everything else passes byte for byte.

Two threads carry the lines, since pipes and files block; the loop in between asks and waits. A host never answers a
request that the ledger has, and the client never gets a line that would end it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from workers.bridges.claude import protocol
from workers.bridges.claude.asking import Asking
from workers.bridges.claude.protocol import Message
from workers.bridges.gateway_client import GatewayClient
from workers.bridges.options import Options
from workers.bridges.stdio import ClientProcess, LongLineError, host_lines, tell, write_to_host

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_WORDS_SECONDS: Final = 5.0

_CONTROL: Final = b'"control_'
_NOTED: Final = (b'"init"', b'"task_started"', b'"tool_use"', b'"tool_result"', b'"result"')
_USER: Final = b'"user"'


class Bridge:
    """One client process, from its start to its end."""

    def __init__(
        self, client: GatewayClient, options: Options, *, interrupts: bool = False, shares_grants: bool = False
    ) -> None:
        self._asking = Asking(
            client,
            options,
            cwd=str(Path.cwd()),
            interrupts=interrupts,
            shares_grants=shares_grants,
        )
        self._turn = threading.Event()
        """Set while the client works at what the host said."""
        self._host_is_gone = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, command: Sequence[str]) -> int:
        """Run the client's command to its end; its exit code."""
        self._loop = asyncio.get_running_loop()
        self._client = ClientProcess(command)
        ended = asyncio.Event()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._client.send, number)
        threading.Thread(target=self._carry_to_client, daemon=True).start()
        threading.Thread(target=self._carry_to_host, args=(ended,), daemon=True).start()
        await ended.wait()
        code = await asyncio.to_thread(self._client.wait)
        # Nobody waits any more for what is pending, and what ran is noted before we go.
        self._start(self._asking.end())
        await asyncio.wait(self._tasks, timeout=_LAST_WORDS_SECONDS)
        return code

    # --- host to client, in a thread ---------------------------------------------------------------------------------

    def _carry_to_client(self) -> None:
        try:
            for line in host_lines():
                if not line.strip() or self._may_reach_client(line):
                    if _USER in line:
                        self._turn.set()
                    self._client.write(line)
        except LongLineError as error:
            tell(str(error))
        self._host_is_gone = True
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        """In a turn its stdin stays open until the result: a client without stdin refuses whatever it would ask."""
        if self._host_is_gone and not self._turn.is_set() and not self._asking.ids():
            self._client.close_stdin()

    def _may_reach_client(self, line: bytes) -> bool:
        if protocol.ends_client(line):
            tell("a line of the host is left out: the client would end at it")
            return False
        if _CONTROL not in line:
            return True
        control_id = protocol.answered(protocol.parse(line))
        if control_id is not None and self._asking.has(control_id):
            tell("an answer of the host is left out: the ledger decides that request")
            return False
        return True

    # --- client to host, in a thread ---------------------------------------------------------------------------------

    def _carry_to_host(self, ended: asyncio.Event) -> None:
        try:
            for line in self._client.lines():
                passed = self._heard(line)
                if passed is not None:
                    write_to_host(passed)
        except (BrokenPipeError, LongLineError) as error:
            if isinstance(error, LongLineError):
                tell(str(error))
            self._client.close_stdout()
        self._on_loop(ended.set)

    def _heard(self, line: bytes) -> bytes | None:
        """What of a line the host gets: the line itself, unless it is about a request of ours."""
        if _CONTROL in line:
            message = protocol.parse(line)
            return line if message is None else self._control(message, line)
        if any(word in line for word in _NOTED):
            message = protocol.parse(line)
            if message is not None:
                self._on_loop(self._note, message)
                if message.get("type") == "result":
                    self._turn.clear()
                    self._close_when_idle()
        return line

    def _control(self, message: Message, line: bytes) -> bytes | None:
        control_id = message.get("request_id")
        if message.get("type") == "control_cancel_request" and isinstance(control_id, str):
            if not self._asking.has(control_id):
                return line
            self._on_loop(self._start, self._withdraw(control_id))
            return None
        if message.get("type") == "control_response":
            changed = protocol.without_ours(message, self._asking.ids())
            return line if changed is None else protocol.line_of(changed)
        if not protocol.is_permission(message):
            return line
        self._permission(message, line)
        return None

    def _permission(self, message: Message, line: bytes) -> None:
        found = protocol.permission_of(message)
        if isinstance(found, str):
            tell(f"a permission request cannot be read: {found}")
            control_id = message.get("request_id")
            if isinstance(control_id, str) and control_id:
                self._client.write(protocol.malformed(control_id, found))
        elif self._asking.take(found.control_id):  # asked twice under one id it is one question
            self._on_loop(self._begin, found, line)

    # --- on the loop -------------------------------------------------------------------------------------------------

    def _on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the bridge
            self._loop.call_soon_threadsafe(function, *arguments)

    def _begin(self, found: protocol.Permission, line: bytes) -> None:
        self._asking.begin(found, lambda answer: self._answered(answer, found, line))

    async def _answered(self, answer: bytes | None, found: protocol.Permission, line: bytes) -> None:
        """Pass an answer to the client, or, without one, the question to the host."""
        if answer is None and not self._host_is_gone:
            await asyncio.to_thread(write_to_host, line)
            return
        nobody = protocol.deny(
            found.control_id, "denied, because nobody could be asked: neither ledger nor host answers"
        )
        await asyncio.to_thread(self._client.write, answer or nobody)
        self._close_when_idle()

    async def _withdraw(self, control_id: str) -> None:
        await self._asking.withdraw(control_id, "asker_gave_up")
        self._close_when_idle()

    def _note(self, message: Message) -> None:
        for work in self._asking.note(message):
            self._start(work)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
