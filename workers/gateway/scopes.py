"""The lists of the views that have all within a caller's reach."""

from __future__ import annotations

from typing import Final

from ledger.log.places import ALL, scope_of
from workers.gateway.principals import Principal

SCOPES_COUNT: Final = 8
"""Projects that are listed each by itself for a token bound to some; beyond them, the list of all is filtered."""


def scopes_within(principal: Principal, project: str | None) -> list[str]:
    """Return the narrowest lists that have what a caller reaches, in one project or in all (None)."""
    if principal.bounds.own is not None:
        return [scope_of("token", principal.bounds.own)]
    if project is not None:
        return [scope_of("project", project)]
    if 0 < len(principal.projects) <= SCOPES_COUNT:
        return [scope_of("project", one) for one in principal.projects]
    return [ALL]
