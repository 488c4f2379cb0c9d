"""All code that judges, imported at once.

A process that stays must not mix the version it began with and one that is installed while it runs. Commands import
that code where they use it, because it takes a fifth of the time of a short one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from ledger.policy.dialects import DIALECTS

_IMPORTED_LATE: Final = (
    "ledger.client.policies",
    "ledger.client.session",
    "ledger.policy.consulted",
    "ledger.policy.danger",
    "ledger.session.decide",
    "ledger.session.freezing",
    "ledger.session.would_run.description",
)
"""The modules that functions import."""


def import_judging() -> None:
    """Import every dialect, and everything that asks, answers and shows requests."""
    for name in _IMPORTED_LATE:
        import_module(name)
    tuple(DIALECTS.values())
