"""An agent's tools under OpenCode's names, for OpenCode's rules."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Tools = Mapping[str, tuple[str, Mapping[str, str]]]
    """OpenCode's name of each tool, and its names of the members that the agent calls otherwise."""


def renamed(tools: Tools, tool: str, tool_input: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an ask that name tool and input. A tool that is not listed keeps its names."""
    name, members = tools.get(tool, (tool, {}))
    return {"tool_name": name, "input": {members.get(key, key): value for key, value in tool_input.items()}}


def named_back(tools: Tools, tool: str, ours: dict[str, Any]) -> dict[str, Any]:
    """Return an input of ours with the names that the agent gives its members."""
    back = {renamed: member for member, renamed in tools.get(tool, (tool, {}))[1].items()}
    return {back.get(key, key): value for key, value in ours.items()}
