"""What a shell line would run, and the one hardened reading of it that all dialects share.

`analyse` tells whether a line is plain and finds every command at any depth; `hardened` combines it with a dialect's
`CommandRules`; `source_commands` is the reading that OpenCode's patterns need.
"""

from __future__ import annotations

from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.danger import dangerous_argument, in_table, never_allowed
from ledger.policy.shell.glob import spells
from ledger.policy.shell.hardened import hardened, spellings
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
from ledger.policy.shell.parse import source_commands
from ledger.policy.shell.touching import accesses
from ledger.policy.shell.unwrap import peeled

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
