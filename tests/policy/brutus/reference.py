"""A slow reading of BRUTUS's specification, close to its Go, for the faithful profile."""

from __future__ import annotations

import posixpath

Rule = tuple[str, str, str]

ARITY = {
    **dict.fromkeys(["cat", "cd", "chmod", "chown", "cp", "echo", "grep", "kill", "ls", "mkdir", "mv", "pwd", "rm"], 1),
    **dict.fromkeys(["rmdir", "touch"], 1),
    **dict.fromkeys(["brew", "cargo", "docker", "git", "go", "helm", "kubectl", "make", "npm", "pip", "pnpm"], 2),
    **dict.fromkeys(["poetry", "python", "yarn"], 2),
    **dict.fromkeys(["aws", "bun run", "docker compose", "git config", "git remote", "git stash", "npm run"], 3),
    **dict.fromkeys(["pnpm run", "yarn run"], 3),
}


def match(value: str, pattern: str) -> bool:
    """A trailing ` *` becomes optional; `.` is any character but a line end."""
    if pattern.endswith(" *") and walk(value, pattern[:-2]):
        return True
    return walk(value, pattern)


def walk(value: str, pattern: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == "*":
        return walk(value, pattern[1:]) or (bool(value) and value[0] != "\n" and walk(value[1:], pattern))
    if not value or (pattern[0] == "?" and value[0] == "\n"):
        return False
    return pattern[0] in ("?", value[0]) and walk(value[1:], pattern[1:])


def evaluate(permission: str, pattern: str, rules: list[Rule]) -> str:
    """Sorted by length, then alphabetically (stably); the last match."""
    action = "ask"
    for rule in sorted(rules, key=lambda one: (len(one[0].encode()), one[0].encode())):
        if match(permission, rule[0]) and match(pattern, rule[1]):
            action = rule[2]
    return action


def ask(permission: str, patterns: list[str], config: list[Rule], approved: list[Rule]) -> str:
    """The first pattern that is not allowed decides."""
    for pattern in patterns:
        action = evaluate(permission, pattern, config + approved)
        if action != "allow":
            return action
    return "allow"


def arity_prefix(tokens: list[str]) -> list[str]:
    for length in range(len(tokens), 0, -1):
        arity = ARITY.get(" ".join(tokens[:length]))
        if arity is not None and arity <= len(tokens):
            return tokens[:arity]
    return tokens[:1]


def bash(commands: list[list[str]], project: str) -> tuple[list[str], list[str], list[str]]:
    """Patterns, approvals, and folders outside the project, of commands that are given as their words."""
    patterns, always, outside = [], [], []
    for tokens in commands:
        if tokens[0] in ("cd", "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown"):
            for argument in tokens[1:]:
                resolved = posixpath.normpath(posixpath.join(project, argument))
                if not argument.startswith("-") and resolved != project and not resolved.startswith(project + "/"):
                    outside.append(resolved)
        patterns.append(" ".join(tokens))
        always.append(" ".join(arity_prefix(tokens)) + "*")
    return list(dict.fromkeys(patterns)), list(dict.fromkeys(always)), list(dict.fromkeys(outside))
