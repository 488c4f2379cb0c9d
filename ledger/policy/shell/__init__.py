"""Analysis of shell lines, and the hardened evaluation that all dialects share.

`analyse` decides if a line is plain and finds every command at any depth. `hardened` combines the analysis with a
dialect's `CommandRules`. `source_commands` returns the commands that OpenCode's patterns are matched against.
"""

from __future__ import annotations

from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.danger import dangerous_argument, in_table, never_allowed
from ledger.policy.shell.hardened import hardened, spellings
from ledger.policy.shell.line_glob import spells
from ledger.policy.shell.model import (
    Access,
    Analysis,
    Assignment,
    CommandRules,
    Redirect,
    Ruling,
    ShellCommand,
    Spelling,
    SpellingForm,
    Word,
    Wrapper,
    accesses,
)
from ledger.policy.shell.parse import source_commands
from ledger.policy.shell.unwrap import peeled

__all__ = [
    "Access",
    "Analysis",
    "Assignment",
    "CommandRules",
    "Redirect",
    "Ruling",
    "ShellCommand",
    "Spelling",
    "SpellingForm",
    "Word",
    "Wrapper",
    "accesses",
    "analyse",
    "dangerous_argument",
    "hardened",
    "in_table",
    "never_allowed",
    "peeled",
    "source_commands",
    "spellings",
    "spells",
]
