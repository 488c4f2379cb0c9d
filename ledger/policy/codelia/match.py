"""Matching of a rule with a command's text or a call of another tool (codelia.md 3.2, 6.2 and 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.policy.codelia.rule import SHELL, SKILL, CodeliaRule, skill_name
from ledger.policy.codelia.text import normalise


def matches_text(rule: CodeliaRule, text: str) -> bool:
    """Match a rule for commands with one normalised text, a segment or the full text. All its conditions must hold."""
    if rule.tool != SHELL or rule.skill is not None or rule.inert or not text:
        return False
    if rule.words is not None:
        wanted = len(rule.words)
        if not wanted or tuple(text.split(" ", wanted)[:wanted]) != rule.words:
            return False
    return rule.matches is None or rule.matches(text)


def matches_full_text(rule: CodeliaRule, text: str) -> bool:
    """Match a rule with the full text; only rules with `command_glob` apply to it (codelia.md 6.4)."""
    return rule.glob is not None and matches_text(rule, text)


def matches_tool(rule: CodeliaRule, tool: str, skill: str | None) -> bool:
    """Match a rule with a call of another tool; `skill` is the skill that `skill_load` asks for."""
    if rule.tool != tool or rule.words is not None or rule.glob is not None or rule.inert:
        return False
    if rule.skill is None:
        return True
    return tool == SKILL and rule.skill == skill


def skills_of(value: Any) -> tuple[str | None, str | None]:
    """Return the skill that an input names, and the skill of its path; normalised, None where missing."""
    if not isinstance(value, Mapping):
        return None, None
    return skill_name(value.get("name")), _skill_of_path(value.get("path"))


def is_misnamed(value: Any) -> bool:
    """Return whether an input names a skill by an invalid name."""
    name = value.get("name") if isinstance(value, Mapping) else None
    return name not in (None, "") and skill_name(name) is None


def _skill_of_path(path: object) -> str | None:
    """Return the folder's name, also when its `SKILL.md` is given."""
    if not isinstance(path, str):
        return None
    parts = [part for part in normalise(path).replace("\\", "/").split("/") if part]
    if len(parts) > 1 and parts[-1].lower() == "skill.md":
        parts.pop()
    return skill_name(parts[-1]) if parts else None
