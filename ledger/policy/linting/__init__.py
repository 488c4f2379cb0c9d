"""Checks of well-formed rules that never decide, never allow, can be evaded, or name nothing. Pure."""

from ledger.policy.linting.finding import LintFinding, Severity
from ledger.policy.linting.names import TOOLS
from ledger.policy.linting.rules import lint_rules
from ledger.policy.linting.texts import lint_text

__all__ = ["TOOLS", "LintFinding", "Severity", "lint_rules", "lint_text"]
