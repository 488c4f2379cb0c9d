"""The dialect `claude`: today's Claude Code settings, judged as the program was measured to judge them."""

from __future__ import annotations

from ledger.policy.claude.policy import ClaudePolicy

__all__ = ["ClaudePolicy"]
