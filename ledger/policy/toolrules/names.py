"""Which tools a rule without a specifier is about: names, `mcp__server`, and globs over names."""

from __future__ import annotations

import re
from typing import Final

from ledger.policy.wildcard import compile_normalised

MCP: Final = "mcp__"
_LITERAL_SERVER = re.compile(r"mcp__(?!_)(?:(?!__)[^*])+__")


def is_glob(tool: str) -> bool:
    """Whether a rule's tool is a glob, or the bare name of an MCP server, which stands for all of its tools."""
    return "*" in tool or is_server(tool)


def is_server(tool: str) -> bool:
    return tool.startswith(MCP) and "__" not in tool.removeprefix(MCP)


def names_tool(rule_tool: str, tool: str) -> bool:
    """Whether the tool side of a rule is about a tool."""
    if "*" in rule_tool:
        return compile_normalised(rule_tool)(tool)
    return tool == rule_tool or (is_server(rule_tool) and tool.startswith(rule_tool + "__"))


def may_allow(rule_tool: str) -> bool:
    """An allow may use `*` only behind the literal name of one MCP server; otherwise it would allow what nobody named."""
    return "*" not in rule_tool or _LITERAL_SERVER.match(rule_tool) is not None
