"""What is wrong with rules that are otherwise well formed: those that never decide, never allow, leak, or name nothing. Pure."""

from ledger.policy.linting.finding import Finding, Severity
from ledger.policy.linting.names import TOOLS
from ledger.policy.linting.rules import lint_rules
from ledger.policy.linting.texts import lint_text

__all__ = ["TOOLS", "Finding", "Severity", "lint_rules", "lint_text"]
