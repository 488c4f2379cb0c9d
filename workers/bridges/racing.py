"""Between a host and an agent that ask each other by JSON lines: the ledger and the host are both asked, one answers.

Rules decide before the host sees anything. What waits for a person is shown at the host too; whoever is first counts,
is recorded, and the other is told that it is over. Everything else passes byte for byte.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, Protocol

from workers.bridges.errors import BridgeError, RefusedError, UnreachableError
from workers.bridges.gateway_client import GatewayClient, Row
from workers.bridges.judging import Cause, Judge, ToolCall, Verdict
from workers.bridges.options import Options
from workers.bridges.stdio import ClientProcess, LongLineError, lines_of, tell, write_to_host

Message = dict[str, Any]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_WORDS_SECONDS: Final = 5.0
_HAS_ID: Final = b'"id"'


class Question(NamedTuple):
    """A permission request of the agent. `key` is its JSON-RPC id as text; ids count from 0, and may be strings."""

    key: str
    rpc_id: Any
    session: str
    cwd: str | None
    call: ToolCall
    message: Message


class Ending(NamedTuple):
    """Questions that nobody needs an answer to: of one session, or the one of `key`."""

    session: str | None = None
    key: str | None = None
    answers_agent: bool = False
    """Whether the agent still waits for the word that they are cancelled."""


HostReply = Literal["once", "session", "always", "reject"]


class Wire(Protocol):
    """One protocol: lines read, answers made. No I/O."""

    agent: str
    """What the agent is called in the ledger."""
    host: str
    """Where its own prompt is, in a word."""

    def may_ask(self, line: bytes) -> bool:
        """Whether a line of the agent may be a permission request; cheap."""
        ...

    def question_of(self, message: Message) -> Question | str | None:
        """The permission that is asked for, what is wrong with it, or None for any other message."""
        ...

    def refuse(self, message: Message) -> bytes:
        """The answer to a request that cannot be read."""
        ...

    def answer(self, question: Question, verdict: Verdict) -> bytes: ...

    def cancelled(self, question: Question) -> bytes: ...

    def reply_of(self, question: Question, message: Message) -> HostReply | None:
        """What the host has answered; None is that it was cancelled, or cannot be read."""
        ...

    def withdrawal(self, question: Question) -> bytes | None:
        """What tells the host that its prompt is over."""
        ...

    def heard_from_agent(self, message: Message) -> Ending | None: ...

    def heard_from_host(self, message: Message) -> Ending | None: ...

    def notes(self, line: bytes) -> bool:
        """Whether a line, of either side, tells the wire something; cheap."""
        ...


class _Asked:
    """A question on its way."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.shown = False
        self.from_host: asyncio.Future[tuple[Message, bytes]] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None


class RacingBridge:
    """One agent process, from its start to its end."""

    def __init__(self, client: GatewayClient, options: Options, wire: Wire) -> None:
        self._client = client
        self._options = options
        self._wire = wire
        self._judges: dict[str, Judge] = {}
        self._asked: dict[str, _Asked] = {}
        self._ours: set[str] = set()
        """Keys that the host's answers must not pass for; also read by the thread that carries the host's lines."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, command: Sequence[str]) -> int:
        """Run the agent's command to its end; its exit code."""
        self._loop = asyncio.get_running_loop()
        self._agent = ClientProcess(command)
        ended = asyncio.Event()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._agent.send, number)
        threading.Thread(target=self._carry_to_agent, daemon=True).start()
        threading.Thread(target=self._carry_to_host, args=(ended,), daemon=True).start()
        await ended.wait()
        code = await asyncio.to_thread(self._agent.wait)
        await asyncio.gather(*(self._withdraw(asked, "asker_died") for asked in list(self._asked.values())))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS_SECONDS)
        return code

    # --- lines, in threads --------------------------------------------------------------------------------------------

    def _carry_to_agent(self) -> None:
        try:
            for line in lines_of(sys.stdin.buffer):
                if self._passes_to_agent(line):
                    self._agent.write(line)
        except LongLineError as error:
            tell(str(error))
        self._agent.close_stdin()

    def _passes_to_agent(self, line: bytes) -> bool:
        if _HAS_ID in line and self._ours:
            message = parse(line)
            key = None if message is None or "method" in message else key_of(message)
            if message is not None and key in self._ours:
                self._on_loop(self._host_answered, key, message, line)
                return False
        if self._wire.notes(line):
            message = parse(line)
            if message is not None:
                self._ended(self._wire.heard_from_host(message))
        return True

    def _carry_to_host(self, ended: asyncio.Event) -> None:
        try:
            for line in self._agent.lines():
                if self._passes_to_host(line):
                    write_to_host(line)
        except (BrokenPipeError, LongLineError) as error:
            if isinstance(error, LongLineError):
                tell(str(error))
            self._agent.close_stdout()
        self._on_loop(ended.set)

    def _passes_to_host(self, line: bytes) -> bool:
        if self._wire.may_ask(line):
            message = parse(line)
            found = None if message is None else self._wire.question_of(message)
            if isinstance(found, str) and message is not None:
                tell(f"a permission request cannot be read and is refused: {found}")
                self._agent.write(self._wire.refuse(message))
                return False
            if isinstance(found, Question):
                self._ours.add(found.key)
                self._on_loop(self._begin, found, line)
                return False
        if self._wire.notes(line):
            message = parse(line)
            if message is not None:
                # Here and not on the loop: the very next line may be a question that it is about.
                self._ended(self._wire.heard_from_agent(message))
        return True

    # --- on the loop --------------------------------------------------------------------------------------------------

    def _on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the bridge
            self._loop.call_soon_threadsafe(function, *arguments)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, question: Question, line: bytes) -> None:
        asked = self._asked[question.key] = _Asked(question)
        asked.task = self._loop.create_task(self._settle(asked, line))
        self._tasks.add(asked.task)
        asked.task.add_done_callback(self._tasks.discard)

    def _host_answered(self, key: str, message: Message, line: bytes) -> None:
        """An answer to a prompt that is over already is dropped: the agent has another."""
        asked = self._asked.get(key)
        if asked is not None and asked.shown and not asked.from_host.done():
            asked.from_host.set_result((message, line))

    def _ended(self, ending: Ending | None) -> None:
        if ending is not None:
            self._on_loop(self._end_questions, ending)

    def _end_questions(self, ending: Ending) -> None:
        for asked in list(self._asked.values()):
            question = asked.question
            if ending.key == question.key or (ending.session is not None and ending.session == question.session):
                self._start(self._end(asked, answers_agent=ending.answers_agent))

    async def _end(self, asked: _Asked, *, answers_agent: bool) -> None:
        if answers_agent:
            await asyncio.to_thread(self._agent.write, self._wire.cancelled(asked.question))
        await self._withdraw(asked, "asker_gave_up")

    async def _withdraw(self, asked: _Asked, cause: Cause) -> None:
        self._asked.pop(asked.question.key, None)
        if asked.task is not None:
            asked.task.cancel()
        await self._judge(asked.question).withdraw(asked.question.call.request_id, cause)

    def _judge(self, question: Question) -> Judge:
        session = self._options.session or question.session
        judge = self._judges.get(session)
        if judge is None:
            judge = Judge(self._client, self._options, session, agent=self._wire.agent, cwd=question.cwd)
            self._judges[session] = judge
        return judge

    async def _settle(self, asked: _Asked, line: bytes) -> None:
        """Ask the ledger, and the host as soon as it waits for a person; give the agent the first answer."""
        question = asked.question
        judge = self._judge(question)

        def waits(_: Row) -> None:
            self._show(asked, line)

        judging = asyncio.ensure_future(judge.judge(question.call, pending=waits))
        try:
            await asyncio.wait((judging, asked.from_host), return_when=asyncio.FIRST_COMPLETED)
            if asked.from_host.done():
                answer = await self._by_host(asked, judge, judging)
            else:
                answer = await self._by_ledger(asked, judging.result(), line)
        except Exception as error:  # noqa: BLE001 - whatever fails must not leave the agent waiting, or allowed
            failed = Verdict("deny", f"denied, because the bridge failed: {error}", question.call.request_id)
            answer = self._wire.answer(question, failed)
        finally:
            judging.cancel()
        self._asked.pop(question.key, None)
        await asyncio.to_thread(self._agent.write, answer)

    def _show(self, asked: _Asked, line: bytes) -> None:
        if not asked.shown:
            asked.shown = True
            self._start(_to_host(line))

    async def _by_ledger(self, asked: _Asked, verdict: Verdict, line: bytes) -> bytes:
        if verdict.behaviour == "agent":
            self._show(asked, line)
            return (await asked.from_host)[1]
        over = self._wire.withdrawal(asked.question) if asked.shown else None
        if over is not None:
            self._start(_to_host(over))
        if verdict.behaviour == "deny" and verdict.message:
            tell(f"{asked.question.call.tool_name}: {verdict.message}")
        return self._wire.answer(asked.question, verdict)

    async def _by_host(self, asked: _Asked, judge: Judge, judging: asyncio.Future[Verdict]) -> bytes:
        """The host's answer counts once the ledger has it; where somebody else was first, theirs does."""
        message, line = asked.from_host.result()
        question = asked.question
        reply = self._wire.reply_of(question, message)
        request_id = question.call.request_id
        if reply is None:
            judging.cancel()
            await judge.withdraw(request_id, "asker_gave_up")
            return line
        try:
            await judge.record(request_id, reply, self._wire.host)
        except RefusedError as error:
            if error.code in ("ALREADY_ANSWERED", "PERMISSION_STALE"):
                return self._wire.answer(question, await judging)
            # This token may not record what was answered elsewhere: the request is withdrawn, and says why.
            judging.cancel()
            await judge.withdraw(request_id, "withdrawn", f"answered at the {self._wire.host}: {reply}")
        except UnreachableError as error:
            if self._options.on_unreachable != "agent":
                text = f"denied, because the answer could not be recorded: {error.text}"
                return self._wire.answer(question, Verdict("deny", text, request_id))
        except BridgeError as error:
            return self._wire.answer(question, Verdict("deny", error.text, request_id))
        return line


async def _to_host(line: bytes) -> None:
    with suppress(BrokenPipeError):
        await asyncio.to_thread(write_to_host, line)


def parse(line: bytes) -> Message | None:
    """A line as an object; None for what is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def key_of(message: Message) -> str:
    """The id of a message as text: 0, "0" and null are three ids."""
    return json.dumps(message.get("id"))


def line_of(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
