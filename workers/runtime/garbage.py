"""Garbage collection of processes that pass over many streams."""

from __future__ import annotations

import gc
from typing import Final

_NEW_COUNT: Final = 50_000
"""New objects until garbage is looked for; Python's own 700 cost an eighth of a verification."""


def collect_rarely() -> None:
    """Look for garbage less often: entries and events are freed without, since none refers back to another."""
    gc.freeze()
    gc.set_threshold(_NEW_COUNT, *gc.get_threshold()[1:])
