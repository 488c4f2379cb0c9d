"""The steps of every hook: read one event, ask, and turn the answer into the tool's fate."""

from __future__ import annotations

import json
import sys
from time import monotonic

from workers.bridges.hooks.exchange import ReaderGoneError
from workers.bridges.hooks.question import HookedCall
from workers.bridges.own_input import runnable
from workers.bridges.session_ids import id_of
from workers.transport.errors import BridgeError, UnreachableError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from workers.bridges.hooks.settings import HookSettings

NAMED_COUNT = 3
"""The number of rules and grants to name; the others are counted."""

TEXT_CHARS_MAX = 200


def decided_by(row: dict[str, Any]) -> str:
    """Return the name of whatever allowed a settled row."""
    if row.get("reply"):
        return str(row["by"])
    evaluation = row.get("evaluation") or {}
    granted = dict.fromkeys(grant for part in evaluation.get("parts", ()) for grant in part.get("grants", ()))
    named = [*map(_rule, evaluation.get("rules", ())), *(f"grant {grant_id}" for grant_id in granted)]
    if not named:
        return "the rules"
    more = f" and {len(named) - NAMED_COUNT} more" if len(named) > NAMED_COUNT else ""
    return ", ".join(named[:NAMED_COUNT]) + more


def _rule(rule: dict[str, Any]) -> str:
    place = rule.get("file") or rule.get("layer")
    line = f":{rule['line']}" if rule.get("file") and rule.get("line") else ""
    return f"rule `{rule['text'][:TEXT_CHARS_MAX]}`" + (f" ({place}{line})" if place else "")


INPUT_BYTES_MAX = 16 * 1024 * 1024


class HookAnswer:
    """`behaviour`: allow, deny, or agent, which leaves the decision to the client's own prompt."""

    def __init__(
        self,
        behaviour: str,
        message: str,
        updated_input: dict[str, Any] | None = None,
        claimed: Callable[[str], None] | None = None,
    ) -> None:
        """`claimed` gives back the claim of an allowed call, with a reason."""
        self.behaviour = behaviour
        self.message = message
        self.updated_input = updated_input
        self._claimed = claimed

    def not_told(self) -> None:
        """Give back the claim of a call that was allowed with an input that the agent does not take."""
        if self._claimed is not None:
            self._claimed("the agent takes no corrected call, and was not told to run it")


def read_event() -> dict[str, Any]:
    """Return the event on stdin. Raises BridgeError, ValueError."""
    text = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
    if len(text) > INPUT_BYTES_MAX:
        raise BridgeError(f"the hook's input takes more than {INPUT_BYTES_MAX} bytes")
    event = json.loads(text)
    if not isinstance(event, dict):
        raise BridgeError("the hook's input is not a JSON object")
    return event


def text_of(event: dict[str, Any], name: str) -> str:
    """Return a required member. Raises BridgeError."""
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise BridgeError(f"the hook's input has no `{name}`")
    return value


def input_of(event: dict[str, Any]) -> dict[str, Any]:
    """Return the call's input. Raises BridgeError."""
    tool_input = event.get("tool_input")
    if not isinstance(tool_input, dict):
        raise BridgeError("the hook's input has no `tool_input`")
    return tool_input


def hooked_call(
    agent: str, event: dict[str, Any], body: dict[str, Any], settings: HookSettings, folder: str | None = None
) -> HookedCall:
    """Return the call of an event in its session. Raises BridgeError without one.

    `body` is what the ask says besides; None is left out. Its `agent` is a sub-agent of `agent`. `folder` is the session's
    where it is not the call's.
    """
    session = settings.session or id_of(text_of(event, "session_id"))
    cwd = event.get("cwd")
    runner = {"name": runner_name(agent, event, session), "call": body["request_id"]}
    said = {"agent": agent, "cwd": cwd, "operands": "ask", **body, "claim": runner}
    if said["agent"] != agent:
        said["parent"] = agent
    opening = {"agent": agent, "cwd": folder or cwd}
    return HookedCall(session, {key: value for key, value in said.items() if value is not None}, opening, settings)


def runner_name(agent: str, event: dict[str, Any], session: str) -> str:
    """Return the name of the agent that runs the calls of an event: its program and its own session."""
    own = event.get("session_id")
    return f"{agent} {id_of(own) if isinstance(own, str) and own else session}"


def decided(
    settings: HookSettings, agent: str, events: Sequence[str], asked: Callable[[dict[str, Any]], dict[str, Any]]
) -> tuple[dict[str, Any], HookAnswer | None]:
    """Read one event, and return it with the answer to the call; `asked` returns what an event asks.

    Raises BridgeError for an event that is not listed.
    """
    until = monotonic() + settings.patience
    event = read_event()
    name = event.get("hook_event_name")
    if name not in events:
        raise BridgeError(f"`{name}` is not an event of this hook; it answers {' and '.join(events)}")
    return event, answer_of(hooked_call(agent, event, asked(event), settings), settings, until)


def answer_of(hooked: HookedCall, settings: HookSettings, until: float | None) -> HookAnswer | None:
    """Ask and wait; None when the answer is not needed any more. Nothing but the outcome `allowed` allows.

    Without `until` it does not wait: the client's own prompt asks the person as well.
    """
    try:
        row = hooked.leave() if until is None else hooked.answer(until)
    except ReaderGoneError:
        return None
    except UnreachableError as error:
        if settings.on_unreachable == "agent":
            return HookAnswer("agent", error.text)
        return HookAnswer("deny", f"denied, because nobody could be asked: {error.text}")
    except BridgeError as error:
        return HookAnswer("deny", f"the permission ledger refuses: {error.text}")
    if row["outcome"] == "allowed":
        return _allowed(hooked, row)
    if row["outcome"] is None and until is None:
        return HookAnswer("agent", "asked in the permission ledger's inbox as well; the first answer counts")
    if row["outcome"] is None:
        return HookAnswer(
            "deny", f"still pending, ask again: a person has not answered yet (request {row['request_id']})"
        )
    return HookAnswer("deny", row.get("message") or f"the request was {row['outcome']}")


def _allowed(hooked: HookedCall, row: dict[str, Any]) -> HookAnswer:
    """Return the answer to an allowed call; a deny where the agent cannot be told what may run."""
    try:
        runs = runnable(row.get("updated_input"), hooked.body.get("input"))
    except BridgeError as error:
        hooked.give_back(row, error.text)
        return HookAnswer("deny", f"the permission ledger refuses: {error.text}")
    message = row.get("message") or f"allowed by {decided_by(row)}"
    return HookAnswer("allow", message, runs, lambda reason: hooked.give_back(row, reason))
