"""An ACP tool call as the ledger judges it: by its raw input if the agent sends one, else by its visible content.

Kinds: read, edit, delete, move, search, execute, think, fetch, switch_mode, other. Gemini CLI sends no raw input: the
command of an `execute` is its title; the request's metadata says that it was judged on that.
"""

from __future__ import annotations

import json
import posixpath
from typing import Any, Final, NamedTuple

from workers.bridges.calls import FileChange, edit_of, exactly, script_of
from workers.bridges.session_ids import id_of
from workers.bridges.tool_calls import ToolCall

_FILE_MEMBERS: Final = ("filePath", "filepath", "file_path", "path", "abs_path")
_CHANGING: Final = frozenset({"edit", "delete", "move"})
_TEXT_CHARS_MAX: Final = 4000
_CUT: Final = ("…", "...")


class JudgedInput(NamedTuple):
    """The tool and input that rules judge, and their source `on`. `said`: further members of the ask."""

    tool: str
    input: dict[str, Any]
    on: str
    said: dict[str, Any] | None = None


def call_of(tool_call: dict[str, Any], request_id: str, cwd: str | None) -> ToolCall:
    """Return the call. `request_id` is kept beside the call's own id, since one call may ask twice."""
    kind = tool_call.get("kind") if isinstance(tool_call.get("kind"), str) else "other"
    title = tool_call.get("title") if isinstance(tool_call.get("title"), str) else ""
    raw = tool_call.get("rawInput") if isinstance(tool_call.get("rawInput"), dict) else {}
    judged = _judged(str(kind), str(title), dict(raw or {}), tool_call, cwd) or _by_title(str(kind), str(title), raw)
    return ToolCall(
        request_id=request_id,
        tool_name=judged.tool,
        input=judged.input,
        metadata=_metadata(tool_call, str(kind), str(title), judged.on),
        call_id=id_of(str(tool_call["toolCallId"])),
        cwd=cwd,
        keeps_id=False,
        said=judged.said,
    )


def input_shown(content: object) -> dict[str, Any] | None:
    """Return the input in a call's content if it is one text of a JSON object, else None."""
    texts = [_text(part["content"], "text") for part in _objects(content) if isinstance(part.get("content"), dict)]
    if len(texts) != 1 or texts[0] is None:
        return None
    try:
        found = json.loads(texts[0])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _judged(
    kind: str, title: str, raw: dict[str, Any], tool_call: dict[str, Any], cwd: str | None
) -> JudgedInput | None:
    if kind == "execute":
        return _command(title, raw)
    if kind in _CHANGING:
        return _change(kind, raw, tool_call, cwd)
    if kind == "read":
        return _read(raw, tool_call, cwd)
    if kind == "fetch" and _text(raw, "url"):
        return JudgedInput("webfetch", raw, "rawInput")
    return None


def _command(title: str, raw: dict[str, Any]) -> JudgedInput | None:
    command = raw.get("command")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return JudgedInput("bash", {**raw, "command": script_of(command)}, "rawInput")
    if isinstance(command, str) and command:
        return JudgedInput("bash", raw, "rawInput")
    # A title that is cut off may show only the harmless half of a command.
    if raw or not title or title.endswith(_CUT):
        return None
    return JudgedInput("bash", {"command": title}, "title")


def _change(kind: str, raw: dict[str, Any], tool_call: dict[str, Any], cwd: str | None) -> JudgedInput | None:
    """Return all files that input and diffs name; locations count for a move, or if nothing else names a file."""
    named = [_text(raw, member) for member in _FILE_MEMBERS]
    diffs = [_text(part, "path") for part in _objects(tool_call.get("content")) if part.get("type") == "diff"]
    paths = _whole([*named, *diffs], cwd)
    on = "rawInput" if any(named) else "what is shown"
    if kind == "move" or not paths:
        paths = _whole([*paths, *_locations(tool_call)], cwd)
    found = edit_of([FileChange(path) for path in paths])
    return None if found is None else JudgedInput(found[0], {**raw, **found[1]}, on)


def _read(raw: dict[str, Any], tool_call: dict[str, Any], cwd: str | None) -> JudgedInput | None:
    named = _whole([_text(raw, member) for member in _FILE_MEMBERS], cwd)
    paths = named or _whole(_locations(tool_call), cwd)
    if len(paths) != 1:
        return None
    return JudgedInput("read", {**raw, "filePath": paths[0]}, "rawInput" if named else "what is shown")


def _by_title(kind: str, title: str, raw: dict[str, Any] | None) -> JudgedInput:
    """Return a permission named as the call's kind, since only the title is known: never a command or a file."""
    said = {"permission": kind, "patterns": [title or "*"], "always": list(exactly(title))}
    return JudgedInput(kind, raw or {"title": title}, "title", said)


def _whole(paths: list[str | None], cwd: str | None) -> list[str]:
    """Return each path once, absolute from the session's folder."""
    return list(dict.fromkeys(posixpath.join(cwd or "", path) for path in paths if path))


def _locations(tool_call: dict[str, Any]) -> list[str | None]:
    return [_text(one, "path") for one in _objects(tool_call.get("locations"))]


def _metadata(tool_call: dict[str, Any], kind: str, title: str, judged_on: str) -> dict[str, Any]:
    content = _objects(tool_call.get("content"))
    diffs = [_diff(part) for part in content if part.get("type") == "diff"]
    texts = [_text(part["content"], "text") for part in content if isinstance(part.get("content"), dict)]
    shown: dict[str, Any] = {"kind": kind, "title": title[:_TEXT_CHARS_MAX], "judged_on": judged_on}
    if diffs:
        shown["diff"] = "\n".join(diffs)[: 4 * _TEXT_CHARS_MAX]
    if any(texts):
        shown["text"] = "\n".join(text for text in texts if text)[:_TEXT_CHARS_MAX]
    if judged_on != "rawInput":
        shown["note"] = "the agent sent no exact input; this was judged on what it shows"
    return shown


def _diff(part: dict[str, Any]) -> str:
    """Return old and new text, for a person and not for `patch`."""
    old, new = ((_text(part, name) or "").splitlines() for name in ("oldText", "newText"))
    return "\n".join([f"--- {part.get('path')}", *(f"-{line}" for line in old), *(f"+{line}" for line in new)])


def _text(value: dict[str, Any], name: str) -> str | None:
    found = value.get(name)
    return found if isinstance(found, str) and found else None


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
