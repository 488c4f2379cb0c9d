"""Bounds on what a policy may hold, with their units last; lengths of names and patterns are in `ledger.limits`."""

from __future__ import annotations

from typing import Final

RULE_COUNT: Final = 10_000
"""Rules of one ruleset, and of one policy with all its layers."""

LAYER_COUNT: Final = 64
"""Layers of one policy."""
