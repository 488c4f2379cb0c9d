"""`Read(…)`, `Edit(…)` and other rules with a path: which tools they govern, and where their patterns begin."""

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
    """Whether a path rule for one tool is about the path of another: `Edit(…)` about all that write, `Read(…)` that read."""
    return rule_tool == tool or (rule_tool == "Edit" and tool in EDITORS) or (rule_tool == "Read" and tool in READERS)


def access_of(tool: str) -> Access:
    return Access.EDIT if tool in EDITORS else Access.READ


def split_root(specifier: str) -> tuple[str, str]:
    """Where a pattern begins, as it is spelt (`//`, `~/`, `/`, or nothing), and what follows, with a leading `/` if anchored."""
    if specifier.startswith("//"):
        return "//", specifier[1:]
    if specifier == "~" or specifier.startswith("~/"):
        return "~/", specifier[1:] or "/"
    if specifier.startswith("/"):
        return "/", specifier
    return "", specifier


def exact_path(tool: str, path: str) -> str:
    """Return the rule of a tool for one absolute path; characters that a pattern would read otherwise are escaped."""
    escaped = "".join("\\" + character if character in "*?[\\" else character for character in path)
    return f"{tool}(/{escaped})"


def is_access_rule(rule: ToolRule, access: Access) -> bool:
    return rule.tool == ACCESS_RULE[access] and rule.specifier is not None
