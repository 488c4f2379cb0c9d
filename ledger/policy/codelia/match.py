"""Whether a rule matches a command's text or a call of another tool (codelia.md 3.2, 6.2 and 6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.policy.codelia.rule import SHELL, SKILL, CodeliaRule, skill_name
from ledger.policy.codelia.text import normalise


def matches_text(rule: CodeliaRule, text: str) -> bool:
    """A rule for commands and one normalised text: a segment, or the full text. All that the rule says must hold."""
    if rule.tool != SHELL or rule.skill is not None or rule.inert or not text:
        return False
    if rule.words is not None:
        wanted = len(rule.words)
        if not wanted or tuple(text.split(" ", wanted)[:wanted]) != rule.words:
            return False
    return rule.matches is None or rule.matches(text)


def matches_full_text(rule: CodeliaRule, text: str) -> bool:
    """Only a rule with `command_glob` looks at the full text (codelia.md 6.4)."""
    return rule.glob is not None and matches_text(rule, text)


def matches_tool(rule: CodeliaRule, tool: str, skill: str | None) -> bool:
    """A rule and a call of another tool; `skill` is the skill that `skill_load` asks for."""
    if rule.tool != tool or rule.words is not None or rule.glob is not None or rule.inert:
        return False
    if rule.skill is None:
        return True
    return tool == SKILL and rule.skill == skill


def skills_of(value: Any) -> tuple[str | None, str | None]:
    """The skill that an input names, and the one that its path leads to; normalised, None where it says nothing."""
    if not isinstance(value, Mapping):
        return None, None
    return skill_name(value.get("name")), _skill_of_path(value.get("path"))


def is_misnamed(value: Any) -> bool:
    """Return whether an input names a skill by what is no name of one."""
    name = value.get("name") if isinstance(value, Mapping) else None
    return name not in (None, "") and skill_name(name) is None


def _skill_of_path(path: object) -> str | None:
    """The folder's name, also when its `SKILL.md` is given."""
    if not isinstance(path, str):
        return None
    parts = [part for part in normalise(path).replace("\\", "/").split("/") if part]
    if len(parts) > 1 and parts[-1].lower() == "skill.md":
        parts.pop()
    return skill_name(parts[-1]) if parts else None
