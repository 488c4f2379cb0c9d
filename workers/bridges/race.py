"""A bridge for agents that ask by JSON lines: ledger and host are asked at once, and the first answer counts.

Rules decide before the host sees anything. A request for a person is shown at the host too; the first answer is
recorded, and the other prompt is closed. Everything else passes byte for byte; lines that are no message are dropped.
"""

from __future__ import annotations

import asyncio
import json
import os.path
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, Protocol

from workers.bridges.options import BridgeOptions
from workers.bridges.stdio import Carrier, Message, parse, tell
from workers.bridges.tool_calls import (
    HELD_COUNT_MAX,
    NOT_AS_CORRECTED,
    CallVerdict,
    Cause,
    GatewayJudge,
    ToolCall,
    verdict_of,
    verdict_of_failure,
)
from workers.transport.gateway_client import GatewayClient, Row
from workers.transport.place import BridgeError, GatewayRefusalError, UnreachableError

HostReply = Literal["once", "session", "always", "reject", "cancelled"]


class RpcQuestion(NamedTuple):
    """A permission request of the agent. `key` is its JSON-RPC id as text; ids count from 0, and may be strings.

    `lineage` is of a sub-agent's session: its parent, the parent's parent, and so on, as far as the agent told.
    """

    key: str
    rpc_id: Any
    session: str
    cwd: str | None
    call: ToolCall
    message: Message
    lineage: tuple[str, ...] = ()


class EndedQuestions(NamedTuple):
    """Questions that need no answer any more: those of one session, or the one of `key`."""

    session: str | None = None
    key: str | None = None
    answers_agent: bool = False
    """True if the agent still needs a message that they are cancelled."""


class EndedCall(NamedTuple):
    """A call whose end the agent reported. `ok`: it succeeded."""

    session: str
    call_id: str
    ok: bool


class HostAnswer(NamedTuple):
    """CONST A person's answer at the host: the ledger's record of it, the `line` for the agent, and the `prompt`."""

    reply: HostReply
    line: bytes
    prompt: str | None = None


class Wire(Protocol):
    """One protocol: messages parsed, answers built."""

    agent: str
    """The agent's name in the ledger."""
    host: str
    """The name of its own prompt."""

    def question_of(self, message: Message) -> RpcQuestion | str | None:
        """Return the permission request in a message, the text of what is wrong with it, or None for others."""
        ...

    def refuse(self, message: Message) -> bytes:
        """Build the answer to a request that cannot be read."""
        ...

    def answer(self, question: RpcQuestion, verdict: CallVerdict) -> bytes:
        """Build the agent's answer for a verdict. Nothing but a plain allow allows."""
        ...

    def cancelled(self, question: RpcQuestion) -> bytes: ...

    def answer_of(self, question: RpcQuestion, message: Message, line: bytes) -> HostAnswer | None:
        """Return the host's answer; None if nobody there could be asked, or if it cannot be read."""
        ...

    def withdrawal(self, question: RpcQuestion) -> bytes | None:
        """Build the message that closes the host's prompt."""
        ...

    def heard_from_agent(self, message: Message) -> EndedQuestions | None: ...

    def heard_from_host(self, message: Message) -> EndedQuestions | None: ...

    def call_ended(self, message: Message) -> EndedCall | None:
        """Return the call whose run a message of the agent ends; None for any other message."""
        ...


def key_of(rpc_id: Any) -> str:
    """Return an id as text: 0, "0" and null are three ids; 0 and 0.0 are one, as for the agents."""
    whole = isinstance(rpc_id, float) and rpc_id.is_integer()
    return json.dumps(int(rpc_id) if whole else rpc_id)


_SHELLS: Final = frozenset({"bash", "zsh", "sh"})
_SCRIPT_OPTIONS: Final = frozenset({"-c", "-lc"})
_SHELL_WORDS: Final = 3
_WILDCARDS: Final = ("*", "?")


class FileChange(NamedTuple):
    """A file that is written or deleted, and its new path if it is moved."""

    path: str
    moved_to: str | None = None


def script_of(command: str | Sequence[str]) -> str:
    """Return the script that a shell would run: `git push` for `/bin/bash -lc 'git push'`, else the command itself."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError:
        return str(command)
    is_shell = len(words) == _SHELL_WORDS and os.path.basename(words[0]) in _SHELLS  # noqa: PTH119 - no path of ours
    if is_shell and words[1] in _SCRIPT_OPTIONS:
        return words[2]
    return command if isinstance(command, str) else shlex.join(words)


def exactly(text: str) -> tuple[str, ...]:
    """Return the grant of exactly this text; none if the text as a pattern would match more."""
    return () if not text or any(one in text for one in _WILDCARDS) else (text,)


def edit_of(changes: Sequence[FileChange]) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the input that stand for these changes; None if a path cannot be written down."""
    paths = [path for change in changes for path in change if path is not None]
    if not paths or any(path != path.strip() or not path.isprintable() for path in paths):
        return None
    if len(paths) == 1:
        return "edit", {"filePath": paths[0]}
    lines = ["*** Begin Patch"]
    for change in changes:
        lines.append(f"*** Update File: {change.path}")
        lines += [] if change.moved_to is None else [f"*** Move to: {change.moved_to}"]
    return "apply_patch", {"patchText": "\n".join([*lines, "*** End Patch"])}


_SHOWN_CHARS_MAX: Final = 120
_LATE: Final = ("ALREADY_ANSWERED", "PERMISSION_STALE")


class _Asked:
    """A question in progress."""

    def __init__(self, question: RpcQuestion, line: bytes) -> None:
        self.question = question
        self.line = line
        self.shown = False
        self.from_host: asyncio.Future[tuple[Message, bytes]] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None


class RacingBridge:
    """One agent process, from its start to its end."""

    def __init__(self, client: GatewayClient, options: BridgeOptions, wire: Wire) -> None:
        self._client = client
        self._options = options
        self._wire = wire
        self._judges: dict[str, GatewayJudge] = {}
        self._asked: dict[str, _Asked] = {}
        """Questions without an answer. Whoever takes one out of here gives the agent its answer, the only one."""
        self._ours: set[str] = set()
        """Keys that the host's answers must not pass for; also read by the thread that carries the host's lines."""
        self._running: dict[tuple[str, str], list[tuple[GatewayJudge, str]]] = {}
        """The ledger's requests of the calls that the agent was told to run, by session and call."""
        self._to_host = asyncio.Lock()

    async def run(self, command: Sequence[str]) -> int:
        """Run the agent's command to its end and return its exit code. Raises OSError when it cannot be started."""
        self._carrier = Carrier(command)
        await self._carrier.carry(self._hear_host, self._hear_agent)
        # The agent can neither ask nor be answered any more.
        for asked in list(self._asked.values()):
            self._withdraw(asked, "asker_died")
        code = await self._carrier.ended()
        await self._carrier.last_words()
        for judge in self._judges.values():
            self._carrier.start(judge.claims.agent_ended())
        await self._carrier.last_words()
        return code

    # --- lines, in threads --------------------------------------------------------------------------------------------

    def _hear_host(self, line: bytes) -> None:
        if not line.strip():
            self._carrier.to_client(line)
            return
        message = self._read(line, self._wire.host)
        if message is None:
            return
        key = None if "method" in message or "id" not in message else key_of(message["id"])
        if key in self._ours:
            self._carrier.on_loop(self._host_answered, key, message, line)
            return
        ending = self._wire.heard_from_host(message)
        # Before the answers that follow from it: the agent must see the cancelled turn first.
        self._carrier.to_client(line)
        self._ended(ending)

    def _hear_agent(self, line: bytes) -> None:
        if not line.strip():
            self._carrier.to_host(line)
            return
        message = self._read(line, self._wire.agent)
        if message is not None and self._passes_to_host(message, line):
            self._carrier.to_host(line)

    def _read(self, line: bytes, origin: str) -> Message | None:
        message = parse(line)
        if message is None:
            tell(f"a line of {origin} is dropped, it is not a JSON object: {line[:_SHOWN_CHARS_MAX]!r}")
        return message

    def _passes_to_host(self, message: Message, line: bytes) -> bool:
        found = self._wire.question_of(message)
        if isinstance(found, str):
            tell(f"a permission request cannot be read and is refused: {found}")
            self._carrier.to_client(self._wire.refuse(message))
            return False
        if found is not None:
            self._ours.add(found.key)
            self._carrier.on_loop(self._begin, _marked(found), line)
            return False
        if "method" in message and "id" in message:
            # A repeated id is another question's, which the host answers itself.
            self._ours.discard(key_of(message["id"]))
        finished = self._wire.call_ended(message)
        if finished is not None:
            self._carrier.on_loop(self._call_ended, finished)
        # Here and not on the loop: the next line may already be a question about it.
        self._ended(self._wire.heard_from_agent(message))
        return True

    # --- on the loop --------------------------------------------------------------------------------------------------

    def _begin(self, question: RpcQuestion, line: bytes) -> None:
        before = self._asked.get(question.key)
        if before is not None:
            # Two questions under one id: an answer to either would be taken for both.
            tell("a permission request has the id of a pending one; both are refused")
            self._withdraw(before, "withdrawn")
            self._carrier.start(self._carrier.tell_client(self._wire.refuse(question.message)))
            return
        asked = self._asked[question.key] = _Asked(question, line)
        asked.task = asyncio.get_running_loop().create_task(self._settle(asked))
        self._carrier.hold(asked.task)

    def _host_answered(self, key: str, message: Message, line: bytes) -> None:
        """Drop an answer to a prompt that is over already: the agent has another."""
        asked = self._asked.get(key)
        if asked is not None and asked.shown and not asked.from_host.done():
            asked.from_host.set_result((message, line))

    def _ended(self, ending: EndedQuestions | None) -> None:
        if ending is not None:
            self._carrier.on_loop(self._end_questions, ending)

    def _end_questions(self, ending: EndedQuestions) -> None:
        for asked in list(self._asked.values()):
            question = asked.question
            if ending.key == question.key or (ending.session is not None and ending.session == question.session):
                if ending.answers_agent:
                    self._carrier.start(self._carrier.tell_client(self._wire.cancelled(question)))
                self._withdraw(asked, "asker_gave_up")

    def _withdraw(self, asked: _Asked, cause: Cause) -> None:
        if self._take(asked):
            self._carrier.start(self._withdrawn(asked, cause))

    async def _withdrawn(self, asked: _Asked, cause: Cause) -> None:
        await self._judge(asked.question).withdraw(asked.question.call.request_id, cause)
        if asked.task is not None:
            asked.task.cancel()

    def _is_open(self, asked: _Asked) -> bool:
        return self._asked.get(asked.question.key) is asked

    def _take(self, asked: _Asked) -> bool:
        """Claim the question; return whether the caller has to answer it."""
        if not self._is_open(asked):
            return False
        del self._asked[asked.question.key]
        return True

    def _judge(self, question: RpcQuestion) -> GatewayJudge:
        if self._options.session:
            return self._judge_of(self._options.session, (), question.cwd)
        return self._judge_of(question.session, question.lineage, question.cwd)

    def _judge_of(self, session: str, lineage: tuple[str, ...], cwd: str | None) -> GatewayJudge:
        judge = self._judges.get(session)
        if judge is None:
            parent = self._judge_of(lineage[0], lineage[1:], cwd) if lineage else None
            judge = GatewayJudge(self._client, self._options, session, agent=self._wire.agent, cwd=cwd, parent=parent)
            self._judges[session] = judge
        return judge

    async def _settle(self, asked: _Asked) -> None:
        """Ask the ledger, and the host as soon as it waits for a person; give the agent the first answer."""
        question = asked.question
        judge = self._judge(question)

        def waits(_: Row) -> None:
            self._show(asked)

        judging = asyncio.ensure_future(judge.judge(question.call, pending=waits))
        try:
            answer = await self._race(asked, judge, judging)
        except Exception as error:  # noqa: BLE001 - see verdict_of_failure
            answer = self._wire.answer(question, verdict_of_failure(question.call.request_id, error))
        finally:
            judging.cancel()
        if not self._take(asked):
            await judge.claims.give_back(question.call.request_id)
            return
        is_corrected = _is_corrected(judging)
        if not is_corrected:
            self._told(judge, question)  # first, since the agent may be quick
        await self._carrier.tell_client(answer)
        if is_corrected:
            await judge.claims.give_back(question.call.request_id, NOT_AS_CORRECTED)

    def _told(self, judge: GatewayJudge, question: RpcQuestion) -> None:
        asked, call_id = judge.claims.asked_of(question.call.request_id), question.call.call_id
        if asked is None or call_id is None:
            return
        self._running.setdefault((question.session, call_id), []).append((judge, asked))
        if len(self._running) > HELD_COUNT_MAX:
            del self._running[next(iter(self._running))]

    def _call_ended(self, ended: EndedCall) -> None:
        for judge, asked in self._running.pop((ended.session, ended.call_id), []):
            self._carrier.start(judge.ran(asked, call_id=ended.call_id, ok=ended.ok))

    async def _race(self, asked: _Asked, judge: GatewayJudge, judging: asyncio.Future[CallVerdict]) -> bytes:
        while True:
            await asyncio.wait((judging, asked.from_host), return_when=asyncio.FIRST_COMPLETED)
            if asked.from_host.done():
                answer = await self._by_host(asked, judge, judging)
                if answer is not None:
                    return answer
                asked.from_host = asyncio.get_running_loop().create_future()
            elif judging.result().behaviour == "agent":
                return await self._by_host_alone(asked)
            else:
                return self._by_ledger(asked, judging.result())

    def _show(self, asked: _Asked) -> None:
        if not asked.shown and self._is_open(asked):
            asked.shown = True
            self._carrier.start(self._tell_host(asked.line))

    def _by_ledger(self, asked: _Asked, verdict: CallVerdict) -> bytes:
        question = asked.question
        over = self._wire.withdrawal(question) if asked.shown and self._is_open(asked) else None
        if over is not None:
            self._carrier.start(self._tell_host(over))
        if verdict.behaviour == "deny" and self._is_open(asked):
            tell(f"{question.call.tool_name}: {verdict.message}")
        elif verdict.updated_input is not None:
            tell(f"{question.call.tool_name}: denied, because this agent takes no corrected call; it was not run")
        return self._wire.answer(question, verdict)

    async def _by_host_alone(self, asked: _Asked) -> bytes:
        """Return the host's answer, unrecorded: the gateway is away, and its options leave questions to the host."""
        self._show(asked)
        message, line = await asked.from_host
        found = self._wire.answer_of(asked.question, message, line)
        return self._wire.cancelled(asked.question) if found is None else found.line

    async def _by_host(self, asked: _Asked, judge: GatewayJudge, judging: asyncio.Future[CallVerdict]) -> bytes | None:
        """Return the host's answer once the ledger has it; if another answer was first, that one.

        None if it does not count, and the ledger's verdict is needed.
        """
        question = asked.question
        found = self._wire.answer_of(question, *asked.from_host.result())
        if found is None:
            tell(
                f"{question.call.tool_name}: the client asked nobody; answer in the inbox, or with `permission-ledger reply`"
            )
            return None
        request_id = question.call.request_id
        if found.reply == "cancelled":
            await judge.withdraw(request_id, "asker_gave_up")
            return found.line
        try:
            return await self._recorded(asked, judge, judging, found)
        except GatewayRefusalError as error:
            return await self._unrecorded(asked, judge, found, error)
        except UnreachableError as error:
            if self._options.on_unreachable != "agent":
                text = f"denied, because the answer could not be recorded: {error.text}"
                return self._wire.answer(question, CallVerdict("deny", text, request_id))
        return found.line

    async def _recorded(
        self, asked: _Asked, judge: GatewayJudge, judging: asyncio.Future[CallVerdict], found: HostAnswer
    ) -> bytes:
        """Return the agent's answer once the ledger has the answer to everything it asks about this call."""
        question = asked.question
        call = question.call
        while True:
            try:
                recorded = await judge.record(call.request_id, found.reply, found.prompt or self._wire.host)
            except GatewayRefusalError as error:
                if error.code not in _LATE:
                    raise
                row = await judge.rest_of(call)
                if row is None:
                    return self._wire.answer(question, await judging)
            else:
                if found.reply == "reject":
                    return found.line
                if recorded["outcome"] != "allowed":
                    return self._wire.answer(question, verdict_of(call, recorded))
                row = None if judging.done() else await judge.rest_of(call)
                if row is None:
                    verdict = judging.result() if judging.done() else await judge.claim(call)
                    return found.line if verdict.behaviour == "allow" else self._wire.answer(question, verdict)
            if row["outcome"] is not None:
                verdict = verdict_of(call, row)
                passes = verdict.behaviour == "allow" and found.reply != "reject"
                return found.line if passes else self._wire.answer(question, verdict)

    async def _unrecorded(
        self, asked: _Asked, judge: GatewayJudge, found: HostAnswer, error: BridgeError
    ) -> bytes | None:
        question = asked.question
        request_id = question.call.request_id
        if found.reply == "reject":
            await judge.withdraw(request_id, "withdrawn", "rejected in the client")
            return found.line
        # A user who may not record an outside allow may not allow there either.
        tell(f"{question.call.tool_name}: allowed in the client, but not in the ledger: {error.text}")
        return None

    # --- writing: pipes block, so not on the loop ---------------------------------------------------------------------

    async def _tell_host(self, line: bytes) -> None:
        async with self._to_host:  # in the order of the writes
            with suppress(BrokenPipeError):
                await self._carrier.tell_host(line)


def _is_corrected(judging: asyncio.Future[CallVerdict]) -> bool:
    """Return whether the ledger allowed the call with another input, which the agent cannot be told."""
    if not judging.done() or judging.cancelled() or judging.exception() is not None:
        return False
    return judging.result().updated_input is not None


def _marked(question: RpcQuestion) -> RpcQuestion:
    """Mark a question whose protocol has no field for a message: the agent will not see the answer's text."""
    metadata = {**(question.call.metadata or {}), "hears_no_words": True}
    return question._replace(call=question.call._replace(metadata=metadata))
