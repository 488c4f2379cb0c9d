"""Calls of tests to BRUTUS's rules."""

from __future__ import annotations

from typing import Any

from ledger.policy import Call, Grant, Layer, PolicySource, Rule, Verdict
from ledger.policy.brutus import BrutusPolicy

PROJECT = "/home/ann/shop"
PROFILES = ("faithful", "hardened")
FS = {"link": "-> /etc"}


def policy(rules: list[list[str]], **options: Any) -> BrutusPolicy:
    made = tuple(Rule(permission, pattern, Verdict(action)) for permission, pattern, action in rules)
    known = {"cwd": PROJECT, "home": "/home/ann", "fs": FS, **options}
    return BrutusPolicy(PolicySource("brutus", (Layer("project", rules=made),), known))


def configured(permission: dict[str, Any], **options: Any) -> BrutusPolicy:
    layer = Layer("project", config={"permission": permission})
    return BrutusPolicy(PolicySource("brutus", (layer,), {"cwd": PROJECT, "home": "/home/ann", **options}))


def bash(command: str, **more: str) -> Call:
    return Call("bash", tool_name="bash", input={"command": command, **more})


def approved(*patterns: str, permission: str = "bash") -> tuple[Grant, ...]:
    return tuple(Grant(f"g{number}", permission, pattern) for number, pattern in enumerate(patterns, 1))
