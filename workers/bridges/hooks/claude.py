"""Claude Code's hooks: its JSON in, the ledger's answer out.

PreToolUse asks before every call, PermissionRequest when the client asks its user. PostToolUse and PostToolUseFailure
report the call that really ran, Stop and SessionEnd the end of the turn or the client. With `--event both` and a person
at a terminal PreToolUse leaves everything without a rule to the client's prompt, and PermissionRequest waits beside it:
the first answer counts, at the prompt or in the inbox. The client takes exit code 1, bad JSON and silence for "no
opinion"; so every failure of a question is a deny, or exit code 2, and never silence.

The client does not report an answer at its own prompt, which it shows beside the hook. A no stands in the transcript at
once; the hook that lost may be ended with SIGTERM just before. The first sign of a yes is PostToolUse.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from time import monotonic, sleep

from ledger.core.regular_files import open_regular
from workers.bridges.hooks.exchange import ReaderGoneError, quoted, say
from workers.bridges.hooks.question import (
    HookAnswer,
    answer_of,
    hooked_call,
    input_of,
    read_event,
    runner_name,
    text_of,
)
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.session_ids import id_of, new_id
from workers.transport.place import BridgeError, GatewayRefusalError, UnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from workers.bridges.hooks.exchange import HookProcess
    from workers.bridges.hooks.question import HookedCall

AGENT = "claude-code"
QUESTIONS = ("PreToolUse", "PermissionRequest")
RAN = {"PostToolUse": True, "PostToolUseFailure": False}
"""The events after a tool ran, and whether it succeeded."""

ENDINGS = {"Stop": "the turn ended", "SessionEnd": "the client ended"}
DIALOGS = ("AskUserQuestion", "ExitPlanMode")
"""The tools that ask the user and run nothing: the client shows them, and a hook cannot answer them."""


def main(_agent: str, words: Sequence[str]) -> int:
    """Read one event from stdin, answer it, and return the exit code. An unknown event is blocked."""
    return run(HookSettings.read(words, "claude"))


def run(settings: HookSettings) -> int:
    said = answered(read_event(), settings)
    if said is not None:
        say(json.dumps(said))
    return 0


def answered(event: dict[str, Any], settings: HookSettings) -> dict[str, Any] | None:
    """Return the output for an event; None is no opinion. Raises BridgeError for an event that must be blocked."""
    until = monotonic() + settings.patience
    name = event.get("hook_event_name")
    if name in RAN:
        _note(event, settings, ok=RAN[name])
        return None
    if name in ENDINGS:
        _withdraw_left(event, settings, ENDINGS[name])
        _end_claims(event, settings)
        return None
    if name not in QUESTIONS:
        known = ", ".join((*QUESTIONS, *RAN, *ENDINGS))
        raise BridgeError(f"`{name}` is not an event of this hook; it answers {known}")
    if event.get("tool_name") in DIALOGS:
        return None
    answer = _answer(event, settings, until)
    if answer is None:
        return None
    said = _permission_answer(answer) if name == "PermissionRequest" else _tool_answer(answer)
    return None if said is None else {"hookSpecificOutput": {"hookEventName": name, **said}}


def _answer(event: dict[str, Any], settings: HookSettings, until: float) -> HookAnswer | None:
    hooked = _hooked(event, settings)
    # Whether the client asks a person at a terminal when a hook answers `ask`.
    at_prompt = settings.process.entrypoint == "cli" and event.get("permission_mode") in PROMPTING_MODES
    if event["hook_event_name"] == "PreToolUse":
        return answer_of(hooked, settings, None if settings.hands_on and at_prompt else until)
    call_id = hooked.take_up() if settings.hands_on else None
    if call_id is not None:
        # The same question as the first hook's, byte for byte.
        hooked.body |= {"tool": _tool(event, call_id)}
        hooked.body["metadata"]["hook_event_name"] = "PreToolUse"
    if at_prompt:
        path = event.get("transcript_path")
        may_open = settings.process.may_open
        readable = path if isinstance(path, str) and (may_open is None or may_open(path)) else None
        hooked.transcript = Transcript(readable, text_of(event, "tool_name"), input_of(event), settings.process)
    return answer_of(hooked, settings, until)


def _hooked(event: dict[str, Any], settings: HookSettings) -> HookedCall:
    call_id = event.get("tool_use_id")
    body: dict[str, Any] = {
        "request_id": id_of(call_id) if isinstance(call_id, str) and call_id else new_id("hook"),
        "tool_name": text_of(event, "tool_name"),
        "input": input_of(event),
        "metadata": {name: event[name] for name in ("hook_event_name", "permission_mode") if name in event},
        "agent": event.get("agent_type") or event.get("agent_id") or AGENT,
    }
    if isinstance(call_id, str) and call_id:
        body["tool"] = _tool(event, id_of(call_id))
    hooked = hooked_call(AGENT, event, body, settings, settings.process.folder)
    hooked.owner = text_of(event, "session_id")
    return hooked


def _tool(event: dict[str, Any], call_id: str) -> dict[str, str]:
    return {"call_id": call_id, "message_id": id_of(str(event.get("prompt_id") or call_id))}


def _tool_answer(answer: HookAnswer) -> dict[str, Any]:
    behaviour = "ask" if answer.behaviour == "agent" else answer.behaviour
    said: dict[str, Any] = {"permissionDecision": behaviour, "permissionDecisionReason": answer.message}
    if behaviour == "allow" and answer.updated_input is not None:
        said["updatedInput"] = answer.updated_input
    return said


def _permission_answer(answer: HookAnswer) -> dict[str, Any] | None:
    """None: no opinion, so that the visible prompt decides."""
    if answer.behaviour == "agent":
        return None
    if answer.behaviour == "deny":
        return {"decision": {"behavior": "deny", "message": answer.message}}
    changed = {} if answer.updated_input is None else {"updatedInput": answer.updated_input}
    return {"decision": {"behavior": "allow", **changed}}


def _note(event: dict[str, Any], settings: HookSettings, *, ok: bool) -> None:
    """Record the call that really ran, and first the yes of the client's own user if its request is pending."""
    session = settings.session or id_of(text_of(event, "session_id"))
    path = f"/v1/sessions/{quoted(session)}"
    call_id = id_of(text_of(event, "tool_use_id"))
    try:
        asked = _record_yes(event, settings, session, call_id) if settings.left_behind(session) else call_id
        body = {"request_id": asked, "call_id": call_id, "ok": ok, "input": event.get("tool_input")}
        settings.process.call("POST", f"{path}/tools-finished", body, 0)
    except (BridgeError, ReaderGoneError) as error:
        # A note only: the tool has run already, and the next call will report the failure.
        sys.stderr.write(f"permission-ledger: the call that ran was not recorded: {error}\n")


def _record_yes(event: dict[str, Any], settings: HookSettings, session: str, call_id: str) -> str:
    """Return the call's request: if the call ran while the request was pending, the user said yes at the prompt."""
    from workers.bridges.askers import Asker, digest_of, folder_of, waiting_for  # noqa: PLC0415 - rarely needed

    # A call may have left its folder, which the event then names.
    folder = folder_of(session, call_id) or event.get("cwd")
    ran = {"tool_name": text_of(event, "tool_name"), "input": event.get("tool_input")}
    found = waiting_for(session, digest_of(ran, folder))
    if not found:
        return call_id
    asked = call_id if call_id in found else found[0]
    if record(settings.process, f"/v1/sessions/{quoted(session)}", asked, "once"):
        left = Asker.take_over(session, asked)
        if left is not None:
            left.done()
    return asked


def _withdraw_left(event: dict[str, Any], settings: HookSettings, why: str) -> None:
    """Withdraw the requests that the agent was told to repeat and did not. A request with a live hook stays."""
    owner = text_of(event, "session_id")
    session = settings.session or id_of(owner)
    if not settings.left_behind(session):
        return
    from workers.bridges.askers import left_by  # noqa: PLC0415 - rarely needed

    body = {"cause": "asker_gave_up", "reason": f"{why} before it was answered"}
    for asker in left_by(session, owner):
        path = f"/v1/sessions/{quoted(session)}/asks/{quoted(asker.request_id)}/cancel"
        try:
            settings.process.call("POST", path, body, 0, watched=False)
        except UnreachableError as error:
            asker.leave()
            sys.stderr.write(f"permission-ledger: a request stays pending although nobody waits for it: {error}\n")
        except BridgeError:
            asker.done()  # answered meanwhile, or unknown to the ledger
        else:
            asker.done()


def _end_claims(event: dict[str, Any], settings: HookSettings) -> None:
    """End the claims of calls that were allowed and whose end was not reported: they may have run."""
    session = settings.session or id_of(text_of(event, "session_id"))
    body = {"runner": runner_name(AGENT, event, session)}
    with suppress(BridgeError):  # they end with their timeout as well
        settings.process.call("POST", f"/v1/sessions/{quoted(session)}/claims-ended", body, 0, watched=False)


PROMPTING_MODES = ("default", "plan", "acceptEdits", "auto")
"""The modes in which the answer `ask` of PreToolUse shows a prompt, measured with 2.1.197 and 2.1.330."""

MADE = "hook_"
"""The prefix of ids that a hook makes if the client names no call."""

NO = "The user doesn't want to proceed with this tool use."
WORDS = "the user said:\n"
TAIL_BYTES = 1024 * 1024
WRITTEN_SECONDS = 0.6
"""The time after the end of a prompt until the answer stands in the transcript. The client kills a hook after a
second."""

PAUSE_SECONDS = 0.05


class Transcript:
    """The end of the client's record of a session, limited to one call.

    It is internal to the client and no interface. So it is read for denials only, and never for what allows.
    """

    prompt = AGENT
    """The name of the client's own prompt in the log."""

    def __init__(self, path: str | None, tool_name: str, tool_input: dict[str, Any], process: HookProcess) -> None:
        self._path = path or ""
        self._process = process
        self._call = (tool_name, tool_input)
        self._place: tuple[int, bytes] | None = None
        """The offset of the first byte that was not read, and the bytes of the unfinished line before it."""
        self._same: dict[str, None] = {}
        """The ids of calls with this input, in their order."""
        self._results: dict[str, str] = {}
        self._read_on()
        self._earlier = frozenset(self._results)

    def rejection(self, request_id: str) -> str | None:
        """Return the text of the user's no, maybe empty; None while there is no such answer.

        `request_id` is the call's id, or one that a hook made. A made id appears nowhere else: then only one call with
        this input may be open.
        """
        self._read_on()
        if request_id.startswith(MADE):
            meant = [one for one in self._same if one not in self._earlier]
        else:
            meant = [one for one in self._same if id_of(one) == request_id]
        said = self._results.get(meant[0]) if len(meant) == 1 else None
        if said is None or not said.startswith(NO):
            return None
        return said.partition(WORDS)[2].strip()

    def rejection_at_the_end(self, request_id: str) -> str | None:
        """As `rejection`, after the prompt was closed: the answer may not be written yet."""
        until = monotonic() + WRITTEN_SECONDS
        while (said := self.rejection(request_id)) is None and monotonic() < until:
            sleep(PAUSE_SECONDS)
        return said

    def record(self, path: str, request_id: str, words: str) -> bool:
        """Record the user's no; return whether the ledger has it."""
        return record(self._process, path, request_id, "reject", words)

    def _read_on(self) -> None:
        """Read and keep the lines that were added.

        The handler of SIGTERM may interrupt this anywhere, and reads on itself. So the place moves in one step, after
        all lines before it were kept; a line that is kept twice changes nothing.
        """
        try:
            with open_regular(self._path, self._process.may_open) as file:
                offset, rest = self._place or (max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES), b"")
                file.seek(offset)
                added = file.read(TAIL_BYTES)
        except OSError:
            return
        *lines, rest = (rest + added).split(b"\n")
        for line in lines:
            self._hear(line)
        self._place = (offset + len(added), rest)

    def _hear(self, line: bytes) -> None:
        if b'"tool_use"' not in line and b'"tool_result"' not in line:
            return
        try:
            message = json.loads(line).get("message")
        except (ValueError, AttributeError):
            return
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                self._hear_block(block)

    def _hear_block(self, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use" and (block.get("name"), block.get("input")) == self._call:
            self._same[str(block.get("id"))] = None
        elif block.get("type") == "tool_result" and block.get("is_error"):
            said = block.get("content")
            self._results[str(block.get("tool_use_id"))] = said if isinstance(said, str) else ""
        elif block.get("type") == "tool_result":
            self._results[str(block.get("tool_use_id"))] = ""


FORBIDDEN = (401, 403)


def record(process: HookProcess, path: str, request_id: str, reply: str, words: str = "") -> bool:
    """Record `once` or `reject`; return whether the ledger has it. `path` is the session's.

    A token that may not record answers withdraws the request instead, with the answer as the reason.
    """
    about = f"{path}/asks/{quoted(request_id)}"
    said = {"reply": reply, "prompt": AGENT, **({"message": words} if words else {})}
    try:
        try:
            process.call("POST", f"{about}/answered", said, 0, watched=False)
        except GatewayRefusalError as error:
            if error.status not in FORBIDDEN:
                raise
            reason = f"answered at the agent's own prompt: {reply}"
            process.call("POST", f"{about}/cancel", {"cause": "withdrawn", "reason": reason}, 0, watched=False)
    except GatewayRefusalError:
        return True  # another answer was first, and stands in the log
    except BridgeError:
        return False
    return True
