"""A tool call of ACP as the ledger judges it: by its raw input where the agent sends one, else by what it shows.

Kinds: read, edit, delete, move, search, execute, think, fetch, switch_mode, other. Gemini CLI sends no raw input: the
command of an `execute` is its title; the request's metadata says that it was judged on that.
"""

from __future__ import annotations

from typing import Any, Final

from workers.bridges.judging import ToolCall
from workers.bridges.naming import id_of

_NAMES: Final = {
    "execute": "bash",
    "edit": "edit",
    "delete": "edit",
    "move": "edit",
    "read": "read",
    "fetch": "webfetch",
}
"""OpenCode's tools, whose rules these calls are judged by."""

_MEMBERS: Final = {"command": ("command",), "filePath": ("filePath", "filepath", "file_path", "path"), "url": ("url",)}
_NEEDED: Final = {"bash": "command", "edit": "filePath", "read": "filePath", "webfetch": "url"}
_TEXT_CHARS_MAX: Final = 4000


def call_of(tool_call: dict[str, Any], key: str, cwd: str | None) -> ToolCall:
    """The call. Its id is the agent's own, with the request's beside it: one call may ask twice."""
    kind = tool_call.get("kind") if isinstance(tool_call.get("kind"), str) else "other"
    title = tool_call.get("title") if isinstance(tool_call.get("title"), str) else ""
    raw = tool_call.get("rawInput") if isinstance(tool_call.get("rawInput"), dict) else None
    name = _NAMES.get(str(kind))
    tool_input, by_title = _input(name, raw or {}, str(title), tool_call)
    call_id = str(tool_call["toolCallId"])
    said: dict[str, Any] | None = None
    if name is None or tool_input is None:
        # What it is about is known by its title only: asked as what the agent calls it, and never allowed as a command.
        name, tool_input, by_title = str(kind), raw or {"title": title}, raw is None
        said = {"permission": name, "patterns": [str(title) or "*"]}
    return ToolCall(
        request_id=id_of(f"{call_id}.{key.strip(chr(34))}"),
        tool_name=name,
        input=tool_input,
        metadata=_metadata(tool_call, str(kind), str(title), judged_on="title" if by_title else "rawInput"),
        call_id=id_of(call_id),
        cwd=cwd,
        keeps_id=False,
        said=said,
    )


def _input(
    name: str | None, raw: dict[str, Any], title: str, tool_call: dict[str, Any]
) -> tuple[dict[str, Any] | None, bool]:
    """The input under OpenCode's names, and whether it was taken from what is shown; None where it is not there."""
    needed = _NEEDED.get(name or "")
    if needed is None:
        return None, False
    for member in _MEMBERS[needed]:
        if isinstance(raw.get(member), str) and raw[member]:
            return {**raw, needed: raw[member]}, False
    if raw:
        return None, False
    if needed == "command":
        return ({"command": title} if title else None), True
    shown = _path_shown(tool_call) if needed == "filePath" else None
    return (None if shown is None else {needed: shown}), True


def _path_shown(tool_call: dict[str, Any]) -> str | None:
    """The file of a diff or of the first location."""
    for part in _objects(tool_call.get("content")) + _objects(tool_call.get("locations")):
        if isinstance(part.get("path"), str) and part["path"]:
            return str(part["path"])
    return None


def _metadata(tool_call: dict[str, Any], kind: str, title: str, *, judged_on: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"kind": kind, "title": title[:_TEXT_CHARS_MAX], "judged_on": judged_on}
    for part in _objects(tool_call.get("content")):
        if part.get("type") == "diff":
            shown["diff"] = {
                "path": part.get("path"),
                "old": str(part.get("oldText") or "")[:_TEXT_CHARS_MAX],
                "new": str(part.get("newText") or "")[:_TEXT_CHARS_MAX],
            }
    if judged_on == "title":
        shown["note"] = "the agent sent no exact input; this was judged on what it shows"
    return shown


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
