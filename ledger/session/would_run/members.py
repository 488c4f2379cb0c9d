"""The members of a tool's input: names that all agents use, sections in display order, and a call in words.

No member is omitted. A member is recognised by its name for every tool, because an unknown tool may run its `command` too.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from ledger.core.late_patterns import late_pattern

CallKind = Literal["command", "file", "search", "address", "query", "question", "plan", "tool", "patterns"]

Origin = Literal["input", "metadata", "patterns", "always", "request"]
"""The member of the request that a section is from; labels of `input` and `metadata` are the agent's own words."""

SectionKind = Literal[
    "command", "path", "before", "after", "content", "patch", "address", "search", "query", "question", "option", "plan",
    "remark", "member", "rest", "operand", "pattern", "offered", "folder", "asker", "agent", "tool", "permission",
]  # fmt: skip

BEHIND: Final = "behind"
"""The member of a prerequisite's metadata with the call behind it: `{"tool", "input"}`.

For an input that is too large it is `{"tool", "input_digest", "input_bytes"}`."""

SHELL_TOOLS: Final = frozenset(
    {
        "bash", "shell", "sh", "zsh", "powershell", "execute", "exec", "exec_command", "local_shell", "terminal",
        "run_shell_command", "run_command",
    }
)  # fmt: skip
FILE_TOOLS: Final = frozenset(
    {
        "read", "edit", "write", "patch", "multiedit", "apply_patch", "notebookedit", "notebookread", "list", "ls", "lsp",
        "delete", "move", "replace", "read_file", "write_file", "edit_file", "list_directory",
    }
)  # fmt: skip
QUESTION_TOOLS: Final = frozenset({"question", "askuserquestion", "ask_user"})
PLAN_TOOLS: Final = frozenset({"exitplanmode", "exit_plan_mode", "plan_exit", "plan"})
SEARCH_TOOLS: Final = frozenset({"glob", "grep", "search", "grep_search", "search_file_content"})
ADDRESS_TOOLS: Final = frozenset({"webfetch", "web_fetch", "fetch"})
QUERY_TOOLS: Final = frozenset({"websearch", "codesearch", "web_search", "google_web_search"})

PATH_NAMES: Final = ("file_path", "filePath", "filepath", "notebook_path", "path", "abs_path", "dir_path")
PATCH_NAMES: Final = ("patchText", "patch_text", "patch", "diff")
BEFORE_NAMES: Final = ("old_string", "oldString", "oldText")
AFTER_NAMES: Final = ("new_string", "newString", "newText", "new_source")


MEMBERS_COUNT: Final = 64
"""Members of an input with sections of their own; the others share one under `REST_LABEL`."""

LEAVES_COUNT: Final = 128
"""Values of one list (`edits`, `questions`) with sections of their own; a longer list is one section."""

INDENTED_DEPTH: Final = 6
"""The nesting beyond which a value is written without indentation, whose size grows with the depth."""

REST_LABEL: Final = "everything else"

COMMAND_NAMES: Final = ("command", "cmd", "script", "shell_command", "commandLine")
_SPREAD: Final = frozenset({"edits", "questions", "changes", "options", "answers"})
_KINDS: Final[dict[str, SectionKind]] = {
    **dict.fromkeys(COMMAND_NAMES, "command"),
    **dict.fromkeys((*PATH_NAMES, "workdir", "cwd", "directory"), "path"),
    **dict.fromkeys((*BEFORE_NAMES, "old_str", "oldStr"), "before"),
    **dict.fromkeys((*AFTER_NAMES, "new_str", "newStr"), "after"),
    **dict.fromkeys(PATCH_NAMES, "patch"),
    "content": "content",
    "url": "address",
    "uri": "address",
    "query": "query",
    "pattern": "search",
    "plan": "plan",
    "question": "question",
}
_ORDER: Final[tuple[frozenset[SectionKind], ...]] = (
    frozenset({"command"}),
    frozenset({"question", "option"}),
    frozenset({"plan"}),
    frozenset({"path"}),
    frozenset({"before", "after", "content", "patch"}),
    frozenset({"address", "query", "search"}),
    frozenset({"member"}),
    frozenset({"remark"}),
)
"""Groups in display order; members of one group keep the agent's order, so that an edit's texts are adjacent."""

_OPTION: Final = late_pattern(r"\boptions\[[0-9]+\]\.\w+\Z")

LINE_BREAK: Final = "⏎"
"""A line break in a text on one line; the character itself is written as its escape there."""

LONG_VALUE_CHARS: Final = 60
"""Members with longer words come after the others of their group, so that a cut line shows the short ones."""

_MCP: Final = late_pattern(r"mcp__(?P<server>[A-Za-z0-9._-]+?)__(?P<tool>[A-Za-z0-9._-]+)")
_NAME: Final = late_pattern(r"[A-Za-z0-9_./-]+")
_WORD: Final = late_pattern(r"[A-Za-z0-9_./:@%+=#~-]+")
_LITERAL: Final = late_pattern(r"true|false|null|-?(?:[0-9.]+(?:[eE][+-]?[0-9]+)?|NaN|Infinity)")


class MemberText(msgspec.Struct, frozen=True):
    """One text of a member, before its size, marks and dangers are computed."""

    kind: SectionKind
    origin: Origin
    label: str
    text: str
    is_json: bool = False


def pieces_of(given: Any, origin: Origin) -> list[MemberText]:
    """Return the texts of an input or of metadata, recognised members first, each under its own name."""
    if not isinstance(given, Mapping) or not given:
        return [] if given is None else [_json_piece(origin, "input", given)]
    names = list(given)
    # A recognised member is displayed in its place, however many members precede it.
    names.sort(key=lambda name: name not in _KINDS and name not in _SPREAD)
    shown, rest = names[:MEMBERS_COUNT], names[MEMBERS_COUNT:]
    runs = any(name in given for name in COMMAND_NAMES)
    found = [piece for name in shown for piece in _member(name, given[name], origin, runs)]
    found.sort(key=lambda piece: _place_of(piece.kind))
    if rest:
        found.append(
            MemberText("rest", origin, REST_LABEL, spelled({name: given[name] for name in rest}), is_json=True)
        )
    return found


def display_place(name: str) -> int:
    """Return the place of a member's group among all groups, by the member's name."""
    kind = _KINDS.get(name)
    return _OTHER_PLACE if kind is None else _place_of(kind)


def spelled(value: Any) -> str:
    """Return a value as JSON, indented unless it is deeply nested."""
    indent = 2 if isinstance(value, Mapping | list) and _is_shallow(value) else None
    separators = (",", ": ") if indent else (", ", ": ")
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)


def joined_command(value: Any) -> str | None:
    """Return a command in the form of a list of words as one line; None for anything else."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return None


def _place_of(kind: SectionKind) -> int:
    return next((place for place, kinds in enumerate(_ORDER) if kind in kinds), len(_ORDER))


_OTHER_PLACE: Final = _place_of("member")


def _member(name: str, value: Any, origin: Origin, with_command: bool) -> Iterator[MemberText]:
    command = joined_command(value) if name in COMMAND_NAMES and isinstance(value, list) else None
    if command is not None:
        yield MemberText("command", origin, name, command)
        if not all(word in command for word in value):
            yield _json_piece(origin, name, value)
    elif name in _SPREAD and isinstance(value, list | dict) and value and _leaves_count(value) <= LEAVES_COUNT:
        yield from _spread(name, value, origin)
    elif name == "description" and isinstance(value, str) and with_command:
        yield MemberText("remark", origin, name, value)
    elif isinstance(value, str):
        yield MemberText(_KINDS.get(name, "member"), origin, name, value)
    else:
        yield _json_piece(origin, name, value)


def pieces_behind(call: Mapping[str, Any]) -> list[MemberText]:
    """Return the call behind a folder, its members in the order of a separate request."""
    found: list[MemberText] = []
    for name, value in call.items():
        if name == "input" and isinstance(value, Mapping) and value:
            inner = pieces_of(value, "metadata")
            found += (msgspec.structs.replace(piece, label=f"{BEHIND}.input.{piece.label}") for piece in inner)
        else:
            found.append(_json_piece("metadata", f"{BEHIND}.{name}", value))
    return sorted(found, key=lambda piece: _place_of(piece.kind))


def _json_piece(origin: Origin, label: str, value: Any) -> MemberText:
    if isinstance(value, str):
        return MemberText("member", origin, label, value)
    return MemberText("member", origin, label, spelled(value), is_json=True)


def _spread(label: str, value: Any, origin: Origin) -> Iterator[MemberText]:
    """Iterate over the values of a list or object, a section each; inputs nest at most `JSON_DEPTH_LEVELS`."""
    if isinstance(value, Mapping) and value:
        for name, one in value.items():
            yield from _spread(f"{label}.{name}", one, origin)
    elif isinstance(value, list) and value:
        for index, one in enumerate(value):
            yield from _spread(f"{label}[{index}]", one, origin)
    elif isinstance(value, str):
        kind = "option" if _OPTION.search(label) else _KINDS.get(label.rpartition(".")[2], "member")
        yield MemberText(kind, origin, label, value)
    else:
        yield _json_piece(origin, label, value)


def _leaves_count(value: Any) -> int:
    """Count the values at any depth, up to `LEAVES_COUNT` and one more."""
    count, left = 0, [value]
    while left and count <= LEAVES_COUNT:
        one = left.pop()
        inner = list(one.values()) if isinstance(one, Mapping) else one if isinstance(one, list) else None
        if inner:
            left.extend(inner)
        else:
            count += 1
    return count


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(INDENTED_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, Mapping | list)
            for inner in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not level:
            return True
    return False


def one_line(text: str) -> str:
    """Return the text with every line break as `⏎`, and a `⏎` of its own as its escape."""
    return text.replace(LINE_BREAK, "\\u23ce").replace("\n", LINE_BREAK)


def tool_in_words(tool: str) -> str:
    """Return the server and the tool of an MCP name `mcp__SERVER__TOOL`, else the name."""
    found = _MCP.fullmatch(tool)
    if found is not None:
        return f"{found['server']}: {found['tool']}"
    return tool if _NAME.fullmatch(tool) else _in_quotes(tool)


def call_in_words(tool: str, given: Mapping[str, Any]) -> str:
    """Return the tool and every member of its input: `github: create_issue, repo shop, title "Add a test"`.

    Recognised members are first, long ones last; texts keep their line breaks. A text of more than one plain word stands
    in quotes, so no value can pass for a member or for a number. Nested values are JSON.
    """
    members = [(display_place(name), _name(name), _value(value)) for name, value in given.items()]
    # Stable: members of one group keep the agent's order.
    members.sort(key=lambda one: (one[0], len(one[2]) > LONG_VALUE_CHARS))
    return ", ".join((tool_in_words(tool), *(f"{name} {value}" for _, name, value in members)))


def compact_json(value: Any) -> str:
    """Return a value as JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else _in_quotes(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and not _LITERAL.fullmatch(value) else _in_quotes(value)
    if isinstance(value, list) and value and all(one is None or isinstance(one, str | int | float) for one in value):
        return f"[{', '.join(map(_value, value))}]"
    return compact_json(value)


def _in_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
