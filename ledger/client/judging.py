"""All code that judges, imported at once, with the data files it reads.

A process that stays must not mix the version it began with and one that is installed while it runs. Commands import
that code where they use it, because it takes a fifth of the time of a short one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from ledger.masks.shape_tables import place_shapes, provider_shapes
from ledger.policy.dialects import DIALECTS
from ledger.policy.shell.forms.programs import known_programs
from ledger.policy.shell.tables import ARGUMENTS
from ledger.policy.shell.tables.dangers import effects
from ledger.session.would_run.marks import look_alikes

_IMPORTED_LATE: Final = (
    "ledger.client.policies",
    "ledger.client.session",
    "ledger.policy.consulted",
    "ledger.policy.covers",
    "ledger.policy.danger",
    "ledger.policy.offers",
    "ledger.policy.shell.operands",
    "ledger.session.decide",
    "ledger.session.freezing",
    "ledger.session.would_run.description",
)
"""The modules that functions import."""


def import_judging() -> None:
    """Import every dialect, and everything that asks, answers and shows requests; read their tables."""
    for name in _IMPORTED_LATE:
        import_module(name)
    tuple(DIALECTS.values())
    tuple(ARGUMENTS)
    for read in (effects, known_programs, provider_shapes, place_shapes, look_alikes):
        read()
