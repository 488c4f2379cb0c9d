"""The rules of any dialect in one form: permission, pattern, action and origin."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ledger.core.policy import RuleRef, Verdict

WHOLE: Final = "*"
"""The pattern of a rule for a whole tool."""


class ListedRule(msgspec.Struct, frozen=True):
    """One rule. `pattern` is `*` for a whole tool; `ref` is the rule as its dialect spells it.

    `rank` is the position of its layer and `final` marks a deny that nothing lifts; only BetCode's rules have them.
    """

    permission: str
    pattern: str
    action: Verdict
    ref: RuleRef
    rank: int = 0
    final: bool = False

    @property
    def place(self) -> str:
        """Return `file:line`, or the known part of it; else the layer."""
        file, line = self.ref.file, self.ref.line
        return f"{file}:{line}" if file and line else file or self.ref.layer or "-"

    def as_json(self) -> dict[str, Any]:
        return {
            "permission": self.permission,
            "pattern": self.pattern,
            "action": self.action.value,
            "layer": self.ref.layer,
        }
