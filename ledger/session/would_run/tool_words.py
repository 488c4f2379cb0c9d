r"""A call of a tool of unknown meaning in words: `github: create_issue, repo shop, title "Add a test"`.

Every member of the input is in them, recognised ones first, long ones last. A text of more than one plain word stands
in quotes with `"` and `\` escaped, so no value can pass for a member or for a number. Nested values are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ledger.core.late_patterns import late_pattern
from ledger.session.would_run.members import display_place

LINE_BREAK: Final = "⏎"
"""A line break in a text on one line; the character itself is written as its escape there."""

LONG_VALUE_CHARS: Final = 60
"""Members with longer words come after the others of their group, so that a cut line shows the short ones."""

_MCP: Final = late_pattern(r"mcp__(?P<server>[A-Za-z0-9._-]+?)__(?P<tool>[A-Za-z0-9._-]+)")
_NAME: Final = late_pattern(r"[A-Za-z0-9_./-]+")
_WORD: Final = late_pattern(r"[A-Za-z0-9_./:@%+=#~-]+")
_LITERAL: Final = late_pattern(r"true|false|null|-?(?:[0-9.]+(?:[eE][+-]?[0-9]+)?|NaN|Infinity)")


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
    """Return the tool and every member of its input; texts keep their line breaks."""
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
