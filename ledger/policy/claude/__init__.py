"""The dialect `claude`: settings of the current Claude Code, judged as measured on the program."""

from __future__ import annotations

from ledger.policy.claude.policy import ClaudePolicy

__all__ = ["ClaudePolicy"]
