"""The subjects of a call in either form: a tool with its input, or a permission with patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.core.policy import Call
from ledger.policy.toolrules.paths import PATH_FIELDS

BASH = "Bash"
WEB_FETCH = "WebFetch"


def inputs_of(call: Call) -> tuple[str, list[Any]]:
    """Return the tool's name and each input to judge; a permission with patterns has one input per pattern."""
    if call.tool_name is not None:
        return call.tool_name, [call.input]
    tool = call.permission
    return tool, [_input_of(tool, pattern) for pattern in call.patterns]


def _input_of(tool: str, pattern: str) -> dict[str, str]:
    if tool == BASH:
        return {"command": pattern}
    if tool == WEB_FETCH:
        return {"url": pattern}
    field = PATH_FIELDS.get(tool, ("pattern",))[0]
    return {field: pattern}


def command_of(value: Any) -> str | None:
    """Return the command line of a Bash input; None if it has none."""
    command = value.get("command") if isinstance(value, Mapping) else None
    return command if isinstance(command, str) else None
