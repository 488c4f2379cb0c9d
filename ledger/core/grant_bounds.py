"""Checks of the bounds and patterns that a person gives for grants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ledger.core.durations import check_duration_ms
from ledger.core.errors import InputError
from ledger.core.events import GrantBounds
from ledger.core.limits import EDITED_PATTERN_COUNT, GRANT_USES_COUNT
from ledger.core.requests import make_question

GRANTING_ROLES: Final = frozenset((None, "approver", "admin"))
"""The roles that may make grants of their own, and so may widen an offer; None is a process beside the server."""


def grant_bounds(expires_in_ms: int | None, uses: int | None) -> GrantBounds | None:
    """Return the bounds of an answer's grants; None without any. Raises InputError."""
    if expires_in_ms is None and uses is None:
        return None
    return GrantBounds(
        None if expires_in_ms is None else check_duration_ms(expires_in_ms, "time to live"),
        None if uses is None else check_uses(uses),
    )


def check_uses(value: object) -> int:
    """Return a number of uses, at least 1. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= GRANT_USES_COUNT:
        raise InputError(f"the number of uses must be a whole number from 1 to {GRANT_USES_COUNT}, not {value!a:.40}")
    return value


def check_edited(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns that replace the offered ones, each once. Raises InputError for none, or too many."""
    found = tuple(dict.fromkeys(make_question("grant", patterns).call.patterns))
    if not found:
        raise InputError("give at least one pattern, or none at all for the offered ones")
    if len(found) > EDITED_PATTERN_COUNT:
        raise InputError(f"{len(found)} patterns are too many for one answer; give at most {EDITED_PATTERN_COUNT}")
    return found
