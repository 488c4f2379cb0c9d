"""Rules and calls for conversions: the same call as each dialect is asked it, and how strictly each answers."""

from __future__ import annotations

import posixpath
from typing import Any, Final

from ledger.policy import Call, Layer, Policy, PolicySource, Verdict, compile_policy
from ledger.policy.asked import call_of
from ledger.policy.check_questions import JudgedCall
from ledger.policy.conversion.convert import convert
from ledger.policy.dialects import dialect_named
from ledger.policy.toolrules.callfiles import RESTRICTED_FILE

DIALECTS: Final = ("betcode", "brutus", "claude", "codelia", "opencode")
PROFILES: Final = ("faithful", "hardened")
FLAT: Final = ("brutus", "opencode")
TOOLS: Final = ("betcode", "claude")
STRICTNESS: Final = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}

COMMANDS: Final = (
    "git", "git log", "git push", "git push origin", "git push origin main", "git push --force",
    "git push --force origin", "git push --force-with-lease", "git pushx", "gitk", "npm test", "npm test -- x",
    "npm run a", "rm x", "rm -r x", "rmdir x", "make", "make all", "git fetch && rm x", "npm test && make",
    "git push origin main && rm x", "make a?c", "make abc", "frob .env", "frob src/a.ts",
    "rm /etc/x", "mkdir -p /srv/x",
)  # fmt: skip
PATHS: Final = ("a.ts", ".env", "sub/.env", "src/a.ts", "src/deep/a.ts", "lib/src/a.ts", "lib/a.ts", "a.tsx", "/etc/x")
OUTSIDE: Final = ("/etc/x", "/srv/x")
URLS: Final = ("https://example.com/a", "http://example.com/a", "https://evil.com/x", "https://a.evil.com/x")
MCP: Final = (("github", "create_issue"), ("my_server", "run"))

_FILE_TOOLS: Final = {
    "read": ("read", "Read", "read"),
    "edit": ("edit", "Edit", "edit"),
    "write": ("write", "Write", "write"),
}
_OTHERS: Final[dict[str, tuple[tuple[str, str, str | None], list[dict[str, Any]]]]] = {
    "fetch": (("webfetch", "WebFetch", None), [{"url": url, "format": "text"} for url in URLS]),
    "search": (("websearch", "WebSearch", None), [{"query": "x"}]),
    "task": (("task", "Task", None), [{"subagent_type": name} for name in ("general", "build")]),
    "glob": (("glob", "Glob", "glob_search"), [{"pattern": "*.ts"}]),
    "grep": (("grep", "Grep", "grep"), [{"pattern": "x"}]),
    "list": (("list", "LS", None), [{"path": "/repo"}]),
    "todo": (("todowrite", "TodoWrite", "todo_write"), [{"todos": []}]),
    "skill": (("skill", "Skill", "skill_load"), [{"name": name} for name in ("deploy", "review")]),
}


def column(dialect: str) -> int:
    return 0 if dialect in FLAT else 1 if dialect in TOOLS else 2


def calls(dialect: str) -> dict[str, Call]:
    """Every call by a name that all dialects share; a tool that a dialect does not have is left out."""
    shell = dialect_named(dialect).shell
    found = {f"$ {line}": _call(dialect, shell, {"command": line}) for line in COMMANDS}
    for kind, names in _FILE_TOOLS.items():
        for path in PATHS:
            found[f"{kind} {path}"] = _call(dialect, names[column(dialect)], _file(dialect, path))
    for kind, (tools, inputs) in _OTHERS.items():
        tool = tools[column(dialect)]
        if tool is not None:
            found |= {f"{kind} {' '.join(map(str, one.values()))}": _call(dialect, tool, one) for one in inputs}
    if dialect != "codelia":
        names_of = {f"mcp {one} {two}": (f"{one}_{two}", f"mcp__{one}__{two}")[column(dialect)] for one, two in MCP}
        found |= {kind: _call(dialect, name, {}) for kind, name in names_of.items()}
    return found


def _file(dialect: str, path: str) -> dict[str, str]:
    if dialect == "codelia":
        return {"path": path}
    if dialect in TOOLS:
        return {"file_path": posixpath.join("/repo", path), "old_string": "a", "new_string": "b"}
    # BRUTUS matches a path as it was handed in, OpenCode below the project.
    return {
        "filePath": path if dialect == "brutus" else posixpath.join("/repo", path),
        "oldString": "a",
        "newString": "b",
    }


def _call(dialect: str, tool: str, value: dict[str, Any]) -> Call:
    return call_of({"dialect": dialect, "tool": tool, "input": value})


def policy_of(dialect: str, config: Any, profile: str) -> Policy:
    options = {"cwd": "/repo", "home": "/home/ann", "profile": profile}
    return compile_policy(PolicySource(dialect, (Layer("project", config=config),), options))


CALLS: Final = {dialect: calls(dialect) for dialect in DIALECTS}
_FREE: Final = {
    (dialect, profile): {
        name
        for name, call in CALLS[dialect].items()
        if JudgedCall(policy_of(dialect, {}, profile), call).verdict is Verdict.ALLOW
    }
    for dialect in DIALECTS
    for profile in PROFILES
}
"""Calls that a program allows without any rule; only Claude Code has such."""


_GUARDED: Final = ("it is close to", "may be a file that a rule restricts", RESTRICTED_FILE)


class Compared:
    """A conversion and what both policies say of every call: `looser` and `different` name the calls."""

    def __init__(self, origin: str, target: str, config: Any, profile: str) -> None:
        before = policy_of(origin, config, profile)
        found = convert(before, dialect_named(target))
        self.config, self.changes = found.config, found.changes
        after = policy_of(target, found.config, profile)
        self.looser: list[tuple[str, str, str]] = []
        self.different: list[tuple[str, str, str]] = []
        for name in CALLS[origin].keys() & CALLS[target].keys():
            if "&&" in name and profile == "faithful" and "brutus" in (origin, target):
                continue  # BRUTUS asks at the first command that is not allowed, and sees no deny behind it
            outside = name.endswith(OUTSIDE)
            if outside and (origin == "claude" or (origin, target) == ("opencode", "brutus")):
                continue  # Claude Code asks about some paths by itself; BRUTUS's file tools know no outside
            old, new = JudgedCall(before, CALLS[origin][name]), JudgedCall(after, CALLS[target][name])
            free = name in _FREE[target, profile] or name in _FREE[origin, profile]
            # Each dialect guards near misses of its restricting rules, and files named by words, in its own way.
            near = any(said in (one.reason or "") for one in (old, new) for said in _GUARDED)
            excused = near or (free and (not old.rules or self._by_itself))
            if STRICTNESS[new.verdict] < STRICTNESS[old.verdict] and not excused:
                self.looser.append((name, old.verdict.value, new.verdict.value))
            if new.verdict is not old.verdict and not (free or outside or near):
                self.different.append((name, old.verdict.value, new.verdict.value))

    @property
    def _by_itself(self) -> bool:
        """Return whether the conversion reports that Claude Code does not ask about commands that only look."""
        return any("claude asks by itself" in change.text for change in self.changes)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(change.rule.ref.text, change.text) for change in self.changes]


__all__ = ["CALLS", "DIALECTS", "PROFILES", "STRICTNESS", "Compared", "policy_of"]
