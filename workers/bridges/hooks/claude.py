"""Claude Code's hooks: its JSON in, the ledger's answer out.

PreToolUse asks before every call, PermissionRequest when the client asks its user. PostToolUse and PostToolUseFailure
report the call that really ran, Stop and SessionEnd the end of the turn or the client. With `--event both` and a person
at a terminal PreToolUse leaves everything without a rule to the client's prompt, and PermissionRequest waits beside it:
the first answer counts, at the prompt or in the inbox. The client takes exit code 1, bad JSON and silence for "no
opinion"; so every failure of a question is a deny, or exit code 2, and never silence.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from time import monotonic

from workers.bridges.hooks.exchange import ReaderGoneError, call, quoted, say
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.hooks.steps import HookAnswer, answer_of, hooked_call, input_of, read_event, runner_name, text_of
from workers.bridges.hooks.terminal import Transcript, shows_prompts
from workers.bridges.session_ids import id_of, new_id
from workers.transport.errors import BridgeError, UnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from workers.bridges.hooks.question import HookedCall

AGENT = "claude-code"
QUESTIONS = ("PreToolUse", "PermissionRequest")
RAN = {"PostToolUse": True, "PostToolUseFailure": False}
"""The events after a tool ran, and whether it succeeded."""

ENDINGS = {"Stop": "the turn ended", "SessionEnd": "the client ended"}
DIALOGS = ("AskUserQuestion", "ExitPlanMode")
"""The tools that ask the user and run nothing: the client shows them, and a hook cannot answer them."""


def main(words: Sequence[str]) -> int:
    """Read one event from stdin, answer it, and return the exit code. An unknown event is blocked."""
    return run(HookSettings.read(words, "claude"))


def run(settings: HookSettings) -> int:
    until = monotonic() + settings.patience
    event = read_event()
    name = event.get("hook_event_name")
    if name in RAN:
        _note(event, settings, ok=RAN[name])
        return 0
    if name in ENDINGS:
        _withdraw_left(event, settings, ENDINGS[name])
        _end_claims(event, settings)
        return 0
    if name not in QUESTIONS:
        known = ", ".join((*QUESTIONS, *RAN, *ENDINGS))
        raise BridgeError(f"`{name}` is not an event of this hook; it answers {known}")
    if event.get("tool_name") in DIALOGS:
        return 0
    answer = _answer(event, settings, until)
    if answer is not None:
        said = _permission_answer(answer) if name == "PermissionRequest" else _tool_answer(answer)
        if said is not None:
            say(json.dumps({"hookSpecificOutput": {"hookEventName": name, **said}}))
    return 0


def _answer(event: dict[str, Any], settings: HookSettings, until: float) -> HookAnswer | None:
    hooked = _hooked(event, settings)
    at_prompt = shows_prompts(event)
    if event["hook_event_name"] == "PreToolUse":
        return answer_of(hooked, settings, None if settings.hands_on and at_prompt else until)
    call_id = hooked.take_up() if settings.hands_on else None
    if call_id is not None:
        # The same question as the first hook's, byte for byte.
        hooked.body |= {"tool": _tool(event, call_id)}
        hooked.body["metadata"]["hook_event_name"] = "PreToolUse"
    if at_prompt:
        hooked.transcript = Transcript(event.get("transcript_path"), text_of(event, "tool_name"), input_of(event))
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
    hooked = hooked_call(AGENT, event, body, settings, os.environ.get("CLAUDE_PROJECT_DIR"))
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
        asked = _record_yes(event, session, path, call_id) if settings.left_behind(session) else call_id
        body = {"request_id": asked, "call_id": call_id, "ok": ok, "input": event.get("tool_input")}
        call("POST", f"{path}/tools-finished", body, 0)
    except (BridgeError, ReaderGoneError) as error:
        # A note only: the tool has run already, and the next call will report the failure.
        sys.stderr.write(f"permission-ledger: the call that ran was not recorded: {error}\n")


def _record_yes(event: dict[str, Any], session: str, path: str, call_id: str) -> str:
    """Return the call's request: if the call ran while the request was pending, the user said yes at the prompt."""
    from workers.bridges.askers import Asker, digest_of, folder_of, waiting_for  # noqa: PLC0415 - rarely needed
    from workers.bridges.hooks.terminal import record  # noqa: PLC0415 - rarely needed

    # A call may have left its folder, which the event then names.
    folder = folder_of(session, call_id) or event.get("cwd")
    ran = {"tool_name": text_of(event, "tool_name"), "input": event.get("tool_input")}
    found = waiting_for(session, digest_of(ran, folder))
    if not found:
        return call_id
    asked = call_id if call_id in found else found[0]
    if record(path, asked, "once"):
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
            call("POST", path, body, 0, watched=False)
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
        call("POST", f"/v1/sessions/{quoted(session)}/claims-ended", body, 0, watched=False)
