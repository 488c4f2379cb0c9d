"""Answers given at Claude Code's own prompt: a no from its transcript, a yes from the call that ran afterwards.

The client asks its user and a PermissionRequest hook at once, takes the first answer and does not report the other. A
no stands in the transcript at once; the hook that lost may be ended with SIGTERM just before. The first sign of a yes
is PostToolUse.

The transcript is internal to the client and no interface. So it is read for denials only, and never for what allows.
"""

from __future__ import annotations

import json
import os
from time import monotonic, sleep

from ledger.core.regular_files import open_regular
from workers.bridges.hooks.exchange import call, quoted
from workers.bridges.session_ids import id_of
from workers.transport.errors import BridgeError, GatewayRefusalError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

PROMPT = "claude-code"
"""The name of the prompt in the log."""

ENTRYPOINT = "CLAUDE_CODE_ENTRYPOINT"
"""The variable in which the client tells its hooks how it was started."""

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


def shows_prompts(event: dict[str, Any]) -> bool:
    """Return whether the client asks a person at a terminal when a hook answers `ask`."""
    return os.environ.get(ENTRYPOINT) == "cli" and event.get("permission_mode") in PROMPTING_MODES


class Transcript:
    """The end of the client's record of a session, limited to one call."""

    def __init__(self, path: object, tool_name: str, tool_input: dict[str, Any]) -> None:
        self._path = path if isinstance(path, str) else ""
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

    def _read_on(self) -> None:
        """Read and keep the lines that were added.

        The handler of SIGTERM may interrupt this anywhere, and reads on itself. So the place moves in one step, after
        all lines before it were kept; a line that is kept twice changes nothing.
        """
        try:
            with open_regular(self._path) as file:
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


def record(path: str, request_id: str, reply: str, words: str = "") -> bool:
    """Record `once` or `reject`; return whether the ledger has it. `path` is the session's.

    A token that may not record answers withdraws the request instead, with the answer as the reason.
    """
    about = f"{path}/asks/{quoted(request_id)}"
    said = {"reply": reply, "prompt": PROMPT, **({"message": words} if words else {})}
    try:
        try:
            call("POST", f"{about}/answered", said, 0, watched=False)
        except GatewayRefusalError as error:
            if error.status not in FORBIDDEN:
                raise
            reason = f"answered at the agent's own prompt: {reply}"
            call("POST", f"{about}/cancel", {"cause": "withdrawn", "reason": reason}, 0, watched=False)
    except GatewayRefusalError:
        return True  # another answer was first, and stands in the log
    except BridgeError:
        return False
    return True
