"""Checks of well-formed rules that never decide, never allow, can be evaded, or name nothing. Pure."""

from ledger.policy.lint.findings import LintFinding, Severity
from ledger.policy.lint.rules import lint_rules
from ledger.policy.lint.texts import lint_text

__all__ = ["LintFinding", "Severity", "lint_rules", "lint_text"]
