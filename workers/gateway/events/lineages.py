"""The parent sessions of a session, to place sub-agents."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ledger import Ledger
from ledger.core.errors import DamageError

KEPT_COUNT: Final = 10_000
DEPTH_MAX: Final = 32
"""Levels of parent sessions that are followed."""


class Lineages:
    """A cache of lineages. A session's parent never changes, so each is looked up once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._parents: OrderedDict[str, str | None] = OrderedDict()

    async def above(self, parent: str | None) -> tuple[str, ...]:
        """Return this session and its parents, the root first. Raises StoreError."""
        found: list[str] = []
        while parent is not None and parent not in found and len(found) < DEPTH_MAX:
            found.append(parent)
            parent = await self._parent_of(parent)
        return tuple(reversed(found))

    async def _parent_of(self, session: str) -> str | None:
        if session not in self._parents:
            stream = self._ledger.streams.session(session)
            try:
                state = stream.state if stream.folded else await stream.refresh()
            except DamageError:
                return None
            if state.opened_ms is None:
                return None
            self._parents[session] = state.parent
            if len(self._parents) > KEPT_COUNT:
                self._parents.popitem(last=False)
        return self._parents[session]
