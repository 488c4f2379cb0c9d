"""Rules of every shape that a dialect has."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

RuleShape = tuple[Any, ...]
"""The members of a rule in its dialect's form; the action comes last."""

_ACTIONS: Final = ("allow", "ask", "deny")
_COMMANDS: Final = (
    "git *", "git push *", "git push --force", "git push", "npm test", "npm t*", "git push origin main *", "*--force*",
    "*", "git*", "make a?c", "rm:*", "* -r x", "rm *",
)  # fmt: skip
_PATHS: Final = ("*", "*.env", "src/*", "a.ts", ".env", "src/*.ts", "*/a.ts")
_IGNORED: Final = (
    "", ".env", "*.env", "/src/**", "src/**", "./.env", "/a.ts", "*.ts", "//etc/**", "~/x/**", "src/*.ts", "lib/",
)  # fmt: skip
_PERMISSIONS: Final = (
    "*", "bas?", "web*", "task", "github_*", "github_create_issue", "glob", "list", "todowrite", "webfetch", "skill",
)  # fmt: skip
_TOOLS: Final = (
    "WebFetch", "WebFetch(domain:example.com)", "WebFetch(domain:*.evil.com)", "WebSearch", "Task", "Task(general)",
    "Agent", "Glob", "Grep", "LS", "TodoWrite", "Skill", "Skill(deploy)", "mcp__github__create_issue", "mcp__github",
    "mcp__*", "*", "Web*", "MultiEdit", "Bash(git:*)",
)  # fmt: skip
_CODELIA: Final[tuple[dict[str, str], ...]] = (
    {}, {"command": "git"}, {"command": "git push"}, {"command": "git", "command_glob": "*--force*"},
    *({"command_glob": one} for one in (
        "npm test", "git *", "git*", "git*--force", "*--force*", "make a?c", "npm test && make",
    )),
)  # fmt: skip
_CODELIA_TOOLS: Final[tuple[dict[str, str], ...]] = (
    {"tool": "read"}, {"tool": "edit"}, {"tool": "write"}, {"tool": "grep"}, {"tool": "todo_write"},
    {"tool": "skill_load", "skill_name": "deploy"},
)  # fmt: skip


@cache
def rules(dialect: str) -> list[RuleShape]:
    if dialect == "codelia":
        members = [{"tool": "bash", **one} for one in _CODELIA] + [*_CODELIA_TOOLS]
        return [(one, action) for one in members for action in ("allow", "deny")]
    if dialect in ("betcode", "claude"):
        texts = ["Bash" if one == "*" else f"Bash({one})" for one in _COMMANDS]
        texts += [f"{tool}({one})" if one else tool for tool in ("Read", "Edit", "Write") for one in _IGNORED]
        return [(text, action) for text in (*texts, *_TOOLS) for action in _ACTIONS]
    pairs = [("bash", one) for one in _COMMANDS] + [(name, one) for name in ("read", "edit") for one in _PATHS]
    pairs += [(name, "*") for name in _PERMISSIONS]
    pairs += [("task", "general"), ("skill", "deploy"), ("grep", "x"), ("*", "rm *")]
    if dialect == "brutus":
        pairs += [("webfetch", "https://example.com/*"), ("webfetch", "*evil*")]
    return [(*pair, action) for pair in pairs for action in _ACTIONS]


def config_of(dialect: str, shapes: list[RuleShape]) -> dict[str, Any]:
    """A configuration with these rules; of a flat one the later rule of a pattern stands last."""
    section: dict[str, Any] = {}
    if dialect in ("brutus", "opencode"):
        for permission, pattern, action in shapes:
            section.setdefault(permission, {}).pop(pattern, None)
            section[permission][pattern] = action
        return {"permission": section}
    for rule, action in shapes:
        section.setdefault(action, []).append(rule)
    return {"permissions": section}
