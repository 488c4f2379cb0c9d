"""The text that names what allowed a call: a person, the rules with their places, or the grants."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMED_COUNT = 3
"""The number of rules and grants to name; the others are counted."""

TEXT_CHARS_MAX = 200


def decided_by(row: dict[str, Any]) -> str:
    """Return the name of whatever allowed a settled row."""
    if row.get("reply"):
        return str(row["by"])
    evaluation = row.get("evaluation") or {}
    granted = dict.fromkeys(grant for part in evaluation.get("parts", ()) for grant in part.get("grants", ()))
    named = [*map(_rule, evaluation.get("rules", ())), *(f"grant {grant_id}" for grant_id in granted)]
    if not named:
        return "the rules"
    more = f" and {len(named) - NAMED_COUNT} more" if len(named) > NAMED_COUNT else ""
    return ", ".join(named[:NAMED_COUNT]) + more


def _rule(rule: dict[str, Any]) -> str:
    place = rule.get("file") or rule.get("layer")
    line = f":{rule['line']}" if rule.get("file") and rule.get("line") else ""
    return f"rule `{rule['text'][:TEXT_CHARS_MAX]}`" + (f" ({place}{line})" if place else "")
