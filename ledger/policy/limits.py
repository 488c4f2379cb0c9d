"""Size limits of a policy, with their units last; lengths of names and patterns are in `ledger.core.limits`."""

from __future__ import annotations

from typing import Final

RULE_COUNT: Final = 10_000
"""Rules of one ruleset, and of one policy with all its layers."""

LAYER_COUNT: Final = 64
"""Layers of one policy."""

QUESTION_BYTES: Final = 16 * 1024 * 1024
"""One line of `policy check`. A command line in it that is too long for the analysis is asked about, not refused."""
