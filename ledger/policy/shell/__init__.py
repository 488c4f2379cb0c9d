"""What a shell line would run, and the one hardened reading of it that all dialects share."""

from __future__ import annotations

from ledger.policy.shell.model import (
    Access,
    Analysis,
    Assignment,
    Command,
    CommandRules,
    Form,
    Redirect,
    Ruling,
    Spelling,
    Word,
    Wrapper,
)

__all__ = [
    "Access",
    "Analysis",
    "Assignment",
    "Command",
    "CommandRules",
    "Form",
    "Redirect",
    "Ruling",
    "Spelling",
    "Word",
    "Wrapper",
]
