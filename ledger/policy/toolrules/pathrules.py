"""`Read(…)`, `Edit(…)` and other rules with a path: the tools that they govern, and the roots of their patterns."""

from __future__ import annotations

from typing import Final

from ledger.policy.shell import Access
from ledger.policy.toolrules.paths import EDITORS, READERS
from ledger.policy.toolrules.rule import ToolRule

ACCESS_RULE: Final = {Access.READ: "Read", Access.EDIT: "Edit"}
_PATH_TOOLS: Final = READERS | EDITORS


def is_path_tool(tool: str) -> bool:
    return tool in _PATH_TOOLS


def governs(rule_tool: str, tool: str) -> bool:
    """Return whether a path rule for one tool governs another: `Edit(…)` all that write, `Read(…)` all that read."""
    return rule_tool == tool or (rule_tool == "Edit" and tool in EDITORS) or (rule_tool == "Read" and tool in READERS)


def access_of(tool: str) -> Access:
    return Access.EDIT if tool in EDITORS else Access.READ


def split_root(specifier: str) -> tuple[str, str]:
    """Return the root of a pattern as spelt (`//`, `~/`, `/` or nothing), and the rest.

    The rest has a leading `/` if it is anchored.
    """
    if specifier.startswith("//"):
        return "//", specifier[1:]
    if specifier == "~" or specifier.startswith("~/"):
        return "~/", specifier[1:] or "/"
    if specifier.startswith("/"):
        return "/", specifier
    return "", specifier


def exact_path(tool: str, path: str) -> str:
    """Return the rule of a tool for one absolute path; characters with a meaning in patterns are escaped."""
    escaped = "".join("\\" + character if character in "*?[\\" else character for character in path)
    return f"{tool}(/{escaped})"


def is_access_rule(rule: ToolRule, access: Access) -> bool:
    return rule.tool == ACCESS_RULE[access] and rule.specifier is not None
