"""Between a host and Claude Code: permission requests go to the ledger, everything else passes byte for byte.

A host never answers a request that the ledger has, and the client never gets a line that would make it exit.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from workers.bridges.claude import protocol
from workers.bridges.claude.protocol import AGENT, ASKING_MODES, Permission
from workers.bridges.hook_entries import BOTH, hook_settings
from workers.bridges.options import BridgeOptions, check_rules
from workers.bridges.session_ids import id_of, new_id
from workers.bridges.stdio import Carrier, Message, line_of, parse, tell
from workers.bridges.tool_calls import CallVerdict, Cause, GatewayJudge, ToolCall, announce, verdict_of_failure
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import BridgeError

CALLS_COUNT: Final = 4096
"""The number of calls remembered; the oldest are dropped first."""


class CallOrigin(NamedTuple):
    """The asking `agent` and its `parent`; the main agent has neither. `parent_call` is the call that started it."""

    agent: str = AGENT
    parent: str | None = None
    parent_call: str | None = None
    message_id: str | None = None


class Lineage:
    """The sub-agent of each call, by its id, from the client's messages."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, CallOrigin] = OrderedDict()
        self._kinds: OrderedDict[str, str] = OrderedDict()

    def hear(self, message: dict[str, Any]) -> None:
        """Take in an `assistant` message: its calls, and the agents that they start."""
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(content, list):
            return
        parent_call = message.get("parent_tool_use_id")
        for block in content:
            if not isinstance(block, dict) or block.get("type") != "tool_use":
                continue
            call_id, tool_input = block.get("id"), block.get("input")
            if not isinstance(call_id, str):
                continue
            message_id = inner.get("id")
            known = self._origin(parent_call if isinstance(parent_call, str) else None)
            self._keep(call_id, known._replace(message_id=message_id if isinstance(message_id, str) else None))
            kind = tool_input.get("subagent_type") if isinstance(tool_input, dict) else None
            if isinstance(kind, str) and kind:
                self._kinds[call_id] = kind

    def hear_task(self, message: dict[str, Any]) -> None:
        """Take in a `task_started` message: the client's id of a sub-agent, its kind, and the call that started it."""
        agent_id, call_id, kind = (message.get(name) for name in ("task_id", "tool_use_id", "subagent_type"))
        if isinstance(agent_id, str) and isinstance(call_id, str):
            above = self._calls.get(call_id, CallOrigin())
            self._keep(
                f"agent {agent_id}",
                CallOrigin(kind if isinstance(kind, str) and kind else "agent", above.agent, call_id),
            )

    def origin(self, call_id: str, agent_id: str | None) -> CallOrigin:
        """Return the origin of a call; `agent_id` is the client's id of a sub-agent without messages so far."""
        known = self._calls.get(call_id, CallOrigin())
        if agent_id is None or known.parent is not None:
            return known
        # The request comes before the message with the call; the message that started the agent has come before.
        return self._calls.get(f"agent {agent_id}", CallOrigin(f"agent {agent_id}", AGENT))

    def _origin(self, parent_call: str | None) -> CallOrigin:
        if parent_call is None:
            return CallOrigin()
        above = self._calls.get(parent_call, CallOrigin())
        return CallOrigin(self._kinds.get(parent_call, "agent"), above.agent, parent_call)

    def _keep(self, call_id: str, origin: CallOrigin) -> None:
        self._calls[call_id] = origin
        while len(self._calls) > CALLS_COUNT:
            gone, _ = self._calls.popitem(last=False)
            self._kinds.pop(gone, None)


GiveAnswer = Callable[[bytes | None], Awaitable[None]]
"""Takes the line for the client, or None if the host has to be asked."""

BridgeStep = Coroutine[Any, Any, None]


class ClaudeRequests:
    """Requests on one event loop; the threads that carry lines call `has`, `ids` and `take` as well."""

    def __init__(
        self, client: GatewayClient, options: BridgeOptions, *, cwd: str, interrupts: bool, shares_grants: bool
    ) -> None:
        self._client = client
        self._options = options
        self._cwd = cwd
        self._interrupts = interrupts
        self._shares_grants = shares_grants
        self._session = options.session
        self._judge: GatewayJudge | None = None
        self._judges: dict[str, GatewayJudge] = {}
        self._lineage = Lineage()
        self._taken: set[str] = set()
        self._begun: dict[str, tuple[GatewayJudge, Permission, asyncio.Task[None]]] = {}
        self._ran: dict[str, dict[str, Any]] = {}
        self._mode_told: str | None = None

    def has(self, control_id: object) -> bool:
        """Return whether the ledger has this request, so that nobody else answers it."""
        return control_id in self._taken

    def ids(self) -> frozenset[str]:
        return frozenset(self._taken.copy())

    def take(self, control_id: str) -> bool:
        """Claim the request for the ledger; False if it was claimed before."""
        if control_id in self._taken:
            return False
        self._taken.add(control_id)
        return True

    def begin(self, permission: Permission, answer: GiveAnswer) -> None:
        """Ask; `answer` is called once, unless the request is withdrawn first."""
        judge = self._current()
        task = asyncio.get_running_loop().create_task(self._ask(judge, permission, answer))
        self._begun[permission.control_id] = (judge, permission, task)

    async def withdraw(self, control_id: str, cause: Cause) -> None:
        """Withdraw a request whose answer the client does not need any more."""
        begun = self._begun.pop(control_id, None)
        if begun is not None:
            judge, permission, task = begun
            await judge.withdraw(id_of(permission.tool_use_id), cause)
            task.cancel()
            await asyncio.wait([task])
        self._taken.discard(control_id)

    async def end(self) -> None:
        """Withdraw all requests and end all claims, since the client has ended."""
        await asyncio.gather(*(self.withdraw(control_id, "asker_died") for control_id in list(self._begun)))
        await asyncio.gather(*(judge.claims.agent_ended() for judge in self._judges.values()))

    def note(self, message: Message) -> Iterator[BridgeStep]:
        """Read a client's message about sessions, agents and finished calls; yield the work that follows from it."""
        kind = message.get("type")
        if kind == "system" and message.get("subtype") == "init":
            # At once, since the next line may hold the first question.
            self._set_session(message)
            self._tell_mode(message.get("permissionMode"))
            yield self._open()
        elif kind == "system" and message.get("subtype") == "status":
            self._tell_mode(message.get("permissionMode"))
        elif kind == "system" and message.get("subtype") == "task_started":
            self._lineage.hear_task(message)
        elif kind == "assistant":
            self._lineage.hear(message)
        elif kind == "user":
            yield from self._finished(message)

    async def _ask(self, judge: GatewayJudge, permission: Permission, answer: GiveAnswer) -> None:
        try:
            verdict = await judge.judge(self._call(permission))
        except Exception as error:  # noqa: BLE001 - see verdict_of_failure
            verdict = verdict_of_failure(permission.tool_use_id, error)
        line = None if verdict.behaviour == "agent" else self._line(permission, verdict)
        self._begun.pop(permission.control_id, None)
        self._taken.discard(permission.control_id)
        with suppress(BrokenPipeError):
            await answer(line)

    def _line(self, permission: Permission, verdict: CallVerdict) -> bytes:
        if verdict.behaviour != "allow":
            stops = self._interrupts and verdict.stops_agent
            return protocol.deny(permission.control_id, verdict.message, interrupt=stops)
        runs = permission.input if verdict.updated_input is None else verdict.updated_input
        self._ran[permission.tool_use_id] = {"request_id": verdict.request_id, "input": runs}
        granted = protocol.to_share(verdict) if self._shares_grants else ()
        return protocol.allow(permission.control_id, runs, granted)

    def _call(self, permission: Permission) -> ToolCall:
        agent_id = permission.request.get("agent_id")
        origin = self._lineage.origin(permission.tool_use_id, agent_id if isinstance(agent_id, str) else None)
        metadata = protocol.metadata_of(permission)
        if origin.parent_call is not None:
            metadata["parent_call_id"] = origin.parent_call
        call = protocol.call_of(permission, agent=origin.agent, parent=origin.parent, cwd=self._cwd)
        message_id = None if origin.message_id is None else id_of(origin.message_id)
        return call._replace(message_id=message_id, metadata=metadata)

    def _current(self) -> GatewayJudge:
        session = self._session or new_id("claude")
        if self._judge is None or self._judge.session != session:
            self._session = session
            judge = self._judges.get(session)
            if judge is None:
                judge = GatewayJudge(self._client, self._options, session, agent=protocol.AGENT, cwd=self._cwd)
                self._judges[session] = judge
            self._judge = judge
        return self._judge

    def _set_session(self, init: Message) -> None:
        session, cwd = init.get("session_id"), init.get("cwd")
        if self._options.session is None and isinstance(session, str) and session:
            self._session = id_of(session)
        if isinstance(cwd, str) and cwd.startswith("/"):
            self._cwd = cwd

    def _tell_mode(self, mode: object) -> None:
        """Report, once for each change, that the client will not ask: nothing else shows it."""
        if mode is None:
            return
        silent = protocol.silent_mode(mode)
        if silent is not None and silent != self._mode_told:
            tell(
                f"Claude Code is in mode `{silent}`: calls that this mode allows are neither asked about nor "
                "recorded. Start the bridge with --require-asking, or let hooks ask about every call (--install)"
            )
        self._mode_told = silent

    async def _open(self) -> None:
        """Open the session before the first question, so that rules answer it in one exchange."""
        try:
            await self._current().open()
        except BridgeError as error:
            tell(error.text)  # reported again, as an answer, at the next question

    def _finished(self, message: Message) -> Iterator[BridgeStep]:
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else None
        for block in content if isinstance(content, list) else ():
            call_id = block.get("tool_use_id") if isinstance(block, dict) else None
            ran = self._ran.pop(call_id, None) if isinstance(call_id, str) else None
            if ran is not None and self._judge is not None:
                yield self._judge.ran(**ran, call_id=id_of(str(call_id)), ok=not block.get("is_error"))


_CONTROL: Final = b'"control_'
_NOTED: Final = (b'"init"', b'"status"', b'"task_started"', b'"tool_use"', b'"tool_result"', b'"result"')
_USER: Final = b'"user"'


class ClaudeBridge:
    """One client process, from its start to its end."""

    def __init__(
        self,
        client: GatewayClient,
        options: BridgeOptions,
        *,
        interrupts: bool = False,
        shares_grants: bool = False,
        requires_asking: bool = False,
    ) -> None:
        self._requires_asking = requires_asking
        self._asking = ClaudeRequests(
            client,
            options,
            cwd=str(Path.cwd()),
            interrupts=interrupts,
            shares_grants=shares_grants,
        )
        self._turn = threading.Event()
        """Set while the client works at what the host said."""
        self._host_is_gone = False

    async def run(self, command: Sequence[str]) -> int:
        """Run the client's command to its end, and return its exit code."""
        self._carrier = Carrier(command)
        return await self._carrier.run(self._hear_host, self._hear_client, self._asking.end, self._host_ended)

    # --- host to client, in a thread ---------------------------------------------------------------------------------

    def _hear_host(self, line: bytes) -> None:
        if not line.strip() or self._may_reach_client(line):
            if _USER in line:
                self._turn.set()
            self._carrier.to_client(line)

    def _host_ended(self) -> None:
        self._host_is_gone = True
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        """Close the client's stdin after the turn's result: within a turn it could not ask without stdin."""
        if self._host_is_gone and not self._turn.is_set() and not self._asking.ids():
            self._carrier.close_stdin()

    def _may_reach_client(self, line: bytes) -> bool:
        if protocol.ends_client(line):
            tell("a line of the host is dropped: the client would exit on it")
            return False
        if _CONTROL not in line:
            return True
        message = parse(line)
        if self._requires_asking and self._refuses_mode(message):
            return False
        control_id = protocol.answered(message)
        if control_id is not None and self._asking.has(control_id):
            tell("an answer of the host is dropped: the ledger decides that request")
            return False
        return True

    def _refuses_mode(self, message: Message | None) -> bool:
        wanted = protocol.mode_wanted(message)
        if wanted is None:
            return False
        control_id, mode = wanted
        self._carrier.to_host(protocol.malformed(control_id, f"the bridge was told --require-asking: no mode `{mode}`"))
        return True

    # --- client to host, in a thread ---------------------------------------------------------------------------------

    def _hear_client(self, line: bytes) -> None:
        passed = self._passed(line)
        if passed is not None:
            self._carrier.to_host(passed)

    def _passed(self, line: bytes) -> bytes | None:
        """Return the line for the host, without requests that the ledger has; None if nothing is left."""
        if _CONTROL in line:
            message = parse(line)
            return line if message is None else self._control(message, line)
        if any(word in line for word in _NOTED):
            message = parse(line)
            if message is not None:
                self._carrier.on_loop(self._note, message)
                if message.get("type") == "result":
                    self._turn.clear()
                    self._close_when_idle()
        return line

    def _control(self, message: Message, line: bytes) -> bytes | None:
        control_id = message.get("request_id")
        if message.get("type") == "control_cancel_request" and isinstance(control_id, str):
            if not self._asking.has(control_id):
                return line
            self._carrier.on_loop(self._carrier.start, self._withdraw(control_id))
            return None
        if message.get("type") == "control_response":
            changed = protocol.without_ours(message, self._asking.ids())
            return line if changed is None else line_of(changed)
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
                self._carrier.to_client(protocol.malformed(control_id, found))
        elif self._asking.take(found.control_id):  # a repeated id is the same question
            self._carrier.on_loop(self._begin, found, line)

    # --- on the loop -------------------------------------------------------------------------------------------------

    def _begin(self, found: protocol.Permission, line: bytes) -> None:
        self._asking.begin(found, lambda answer: self._answered(answer, found, line))

    async def _answered(self, answer: bytes | None, found: protocol.Permission, line: bytes) -> None:
        """Pass an answer to the client, or, without one, the question to the host."""
        if answer is None and not self._host_is_gone:
            await self._carrier.tell_host(line)
            return
        nobody = protocol.deny(
            found.control_id, "denied, because nobody could be asked: neither ledger nor host answers"
        )
        await self._carrier.tell_client(answer or nobody)
        self._close_when_idle()

    async def _withdraw(self, control_id: str) -> None:
        await self._asking.withdraw(control_id, "asker_gave_up")
        self._close_when_idle()

    def _note(self, message: Message) -> None:
        for work in self._asking.note(message):
            self._carrier.start(work)


PROMPT_TOOL: Final = "--permission-prompt-tool"
SETTINGS: Final = "--settings"
MODE: Final = "--permission-mode"
SKIPPING: Final = ("--dangerously-skip-permissions", "--allow-dangerously-skip-permissions")
_QUESTIONS: Final = frozenset({"-v", "--version", "-h", "--help"})


def wrap(command: Sequence[str], hook_words: Sequence[str], way: str = BOTH) -> tuple[tuple[str, ...], bool]:
    """Return the command to run, and whether it speaks the control protocol on stdio, through the bridge.

    That is a command with `--input-format stream-json`; any other asks by our hooks, which it has for this run.

    `hook_words` are the options of those hooks, `way` the calls that they ask about. Raises BridgeError if the
    command's own settings are in the way.
    """
    if _QUESTIONS & set(command[1:]):
        return tuple(command), False
    if _value(command, "--input-format") == "stream-json":
        named = _value(command, PROMPT_TOOL)
        if named is None:
            return (*command, PROMPT_TOOL, "stdio"), True
        if named != "stdio":
            raise BridgeError(f"the command asks its own tool for permission (`{PROMPT_TOOL} {named}`); leave that out")
        return tuple(command), True
    if _value(command, SETTINGS) is not None:
        raise BridgeError(f"the command has `{SETTINGS}` of its own; use `permission-ledger bridge claude --install`")
    settings = json.dumps({"hooks": hook_settings(hook_words, way=way)}, separators=(",", ":"))
    return (command[0], SETTINGS, settings, *command[1:]), False


def asking(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command in a mode that asks, whatever the settings say. Raises BridgeError for another mode."""
    named = _value(command, MODE)
    wrong = next((word for word in command if word in SKIPPING), None)
    if wrong is not None or (named is not None and named not in ASKING_MODES):
        said = wrong or f"{MODE} {named}"
        raise BridgeError(f"the command says `{said}`, and the bridge --require-asking; leave one of them out")
    return tuple(command) if named is not None else (command[0], MODE, "default", *command[1:])


def _value(command: Sequence[str], option: str) -> str | None:
    for index, word in enumerate(command):
        if word == option and index + 1 < len(command):
            return command[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


SERVER = "ledger"
TOOL = "approve"


async def serve_prompt_tool(options: BridgeOptions) -> None:
    """Answer until the client closes our stdin. Raises ImportError without the package `mcp`."""
    from mcp.server import MCPServer  # noqa: PLC0415 - slow to import, and an extra

    check_rules(options)
    cwd = str(Path.cwd())
    async with GatewayClient(grace=options.grace, tell=tell) as client:
        await announce(client, options)
        judge = GatewayJudge(client, options, options.session or new_id("claude"), agent=protocol.AGENT, cwd=cwd)
        server = MCPServer(SERVER, log_level="WARNING")

        async def approve(tool_name: str, input: dict[str, Any], tool_use_id: str | None = None) -> str:  # noqa: A002 - the client's own name
            """Ask the permission ledger whether a tool call may run."""
            call_id = id_of(tool_use_id) if tool_use_id else new_id("call")
            call = ToolCall(call_id, tool_name, input, call_id=call_id, cwd=cwd)
            return answer(input, await judge.judge_or_withdraw(call))

        server.add_tool(approve, name=TOOL, structured_output=False)
        await server.run_stdio_async()
        # The end of our stdin means that the client has ended: pending questions are cancelled.
        await judge.left()
        await judge.claims.agent_ended()


def answer(tool_input: dict[str, Any], verdict: CallVerdict) -> str:
    """Return the client's form of a verdict. No other prompt is left to ask, so all but an allow is a deny."""
    if verdict.behaviour == "allow":
        runs = tool_input if verdict.updated_input is None else verdict.updated_input
        return json.dumps({"behavior": "allow", "updatedInput": runs})
    return json.dumps({"behavior": "deny", "message": verdict.message})
