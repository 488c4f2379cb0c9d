"""Tools of a rule without a specifier: names, `mcp__server`, and globs over names."""

from __future__ import annotations

from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching.wildcard import compile_normalised

MCP: Final = "mcp__"
_LITERAL_SERVER = late_pattern(r"mcp__(?!_)(?:(?!__)[^*])+__")


def is_glob(tool: str) -> bool:
    """Return whether a rule's tool is a glob, or the name of an MCP server, which stands for all of its tools."""
    return "*" in tool or is_server(tool)


def is_server(tool: str) -> bool:
    return tool.startswith(MCP) and "__" not in tool.removeprefix(MCP)


def names_tool(rule_tool: str, tool: str) -> bool:
    """Return whether the tool side of a rule matches a tool."""
    if "*" in rule_tool:
        return compile_normalised(rule_tool)(tool)
    return tool == rule_tool or (is_server(rule_tool) and tool.startswith(rule_tool + "__"))


def may_allow(rule_tool: str) -> bool:
    """Return whether an allow may use this tool side: `*` is accepted only behind the literal name of an MCP server."""
    return "*" not in rule_tool or _LITERAL_SERVER.match(rule_tool) is not None
