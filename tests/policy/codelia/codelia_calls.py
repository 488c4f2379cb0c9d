"""Calls of tests to Codelia's rules."""

from __future__ import annotations

import json
from typing import Any

from ledger.policy import Call, Evaluation, Grant, Layer, PolicySource, Verdict
from ledger.policy.codelia import CodeliaPolicy

ROOT = "/repo"
PROFILES = ("faithful", "hardened")


def policy(
    allow: list[dict[str, Any]] | None = None, deny: list[dict[str, Any]] | None = None, **options: Any
) -> CodeliaPolicy:
    config = {"version": 1, "permissions": {"allow": allow or [], "deny": deny or []}}
    return CodeliaPolicy(PolicySource("codelia", (Layer("project", config=config),), {"cwd": ROOT, **options}))


def commands(*texts: str) -> list[dict[str, Any]]:
    return [{"tool": "bash", "command": text} for text in texts]


def globs(*texts: str) -> list[dict[str, Any]]:
    return [{"tool": "bash", "command_glob": text} for text in texts]


def bash(command: str) -> Call:
    return tool("bash", {"command": command})


def tool(name: str, value: Any = None) -> Call:
    return Call(name, tool_name=name, input={} if value is None else value)


def judge(command: str, rules: CodeliaPolicy, grants: tuple[Grant, ...] = ()) -> Evaluation:
    return rules.evaluate(bash(command), grants)


def verdict(command: str, rules: CodeliaPolicy) -> Verdict:
    return judge(command, rules).verdict


def grant(rule: dict[str, str], grant_id: str = "g1") -> Grant:
    return Grant(grant_id, rule["tool"], json.dumps(rule))
