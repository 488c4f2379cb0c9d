"""Three tables that people can read: what wraps commands, what changes the shell, which arguments are dangerous."""

from __future__ import annotations

from ledger.policy.shell.tables.arguments import ARGUMENTS, Danger
from ledger.policy.shell.tables.builtins import STATE_BUILTINS
from ledger.policy.shell.tables.wrappers import OPAQUE, RUNNERS, SHELLS, TRANSPARENT, Opaque, Transparent

__all__ = [
    "ARGUMENTS",
    "OPAQUE",
    "RUNNERS",
    "SHELLS",
    "STATE_BUILTINS",
    "TRANSPARENT",
    "Danger",
    "Opaque",
    "Transparent",
]
