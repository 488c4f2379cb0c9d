"""Between a host and Claude Code: permission requests go to the ledger, everything else passes byte for byte.

A host never answers a request that the ledger has, and the client never gets a line that would make it exit.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from workers.bridges.claude import protocol
from workers.bridges.claude.hook_settings import BOTH, hook_settings
from workers.bridges.claude.protocol import ASKING_MODES
from workers.bridges.claude.requests import ClaudeRequests
from workers.bridges.messages import Message, line_of, parse
from workers.bridges.options import BridgeOptions
from workers.bridges.pipes import Carrier
from workers.bridges.stdio import tell
from workers.transport.errors import BridgeError
from workers.transport.gateway_client import GatewayClient

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
        await self._carrier.carry(self._hear_host, self._hear_client, self._host_ended)
        code = await self._carrier.ended()
        # Finished calls are noted before the rest of the claims end; pending requests have no asker any more.
        await self._carrier.last_words()
        self._carrier.start(self._asking.end())
        await self._carrier.last_words()
        return code

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


class Wrapped(NamedTuple):
    """The command to run. `on_stdio`: it speaks the control protocol through the bridge; otherwise it asks by hooks."""

    command: tuple[str, ...]
    on_stdio: bool


def wrap(command: Sequence[str], hook_words: Sequence[str], way: str = BOTH) -> Wrapped:
    """Return the command for stdio if it has `--input-format stream-json`, else with our hooks for this run.

    `hook_words` are the options of those hooks, `way` the calls that they ask about. Raises BridgeError if the
    command's own settings are in the way.
    """
    if _QUESTIONS & set(command[1:]):
        return Wrapped(tuple(command), on_stdio=False)
    if _value(command, "--input-format") == "stream-json":
        named = _value(command, PROMPT_TOOL)
        if named is None:
            return Wrapped((*command, PROMPT_TOOL, "stdio"), on_stdio=True)
        if named != "stdio":
            raise BridgeError(f"the command asks its own tool for permission (`{PROMPT_TOOL} {named}`); leave that out")
        return Wrapped(tuple(command), on_stdio=True)
    if _value(command, SETTINGS) is not None:
        raise BridgeError(f"the command has `{SETTINGS}` of its own; use `permission-ledger bridge claude --install`")
    settings = json.dumps({"hooks": hook_settings(hook_words, way=way)}, separators=(",", ":"))
    return Wrapped((command[0], SETTINGS, settings, *command[1:]), on_stdio=False)


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
