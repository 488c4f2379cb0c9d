"""Tables of wrappers, of builtins that change the shell, and of dangerous arguments."""

from __future__ import annotations

from ledger.policy.shell.tables.arguments import ARGUMENTS, STATE_BUILTINS, DangerousArguments
from ledger.policy.shell.tables.wrappers import OPAQUE, RUNNERS, SHELLS, TRANSPARENT, Opaque, Transparent

__all__ = [
    "ARGUMENTS",
    "OPAQUE",
    "RUNNERS",
    "SHELLS",
    "STATE_BUILTINS",
    "TRANSPARENT",
    "DangerousArguments",
    "Opaque",
    "Transparent",
]
