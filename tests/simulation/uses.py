"""The uses of a project's grants, counted in its log alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ledger.core.events import Asked, Claimed, Granted, Replied, UseTaken
from ledger.core.grants import Recorded


class Uses:
    """The calls that took a use of each grant. Fails where a grant has more of them than uses."""

    def __init__(self, project: Iterable[Recorded]) -> None:
        self._limits: dict[str, int] = {}
        self._takers: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for recorded in project:
            event = recorded.event
            if isinstance(event, Granted) and event.uses is not None:
                self._limits[event.grant_id] = event.uses
            elif isinstance(event, UseTaken):
                takers = self._takers[event.grant_id]
                takers.add((event.session, event.request_id))
                assert len(takers) <= self._limits[event.grant_id], f"more calls than uses of {event.grant_id}"

    def check_taken(self, session: str, records: Iterable[Recorded]) -> None:
        """Fail where a call of a session was allowed or claimed by a use that it did not take."""
        for recorded in records:
            event = recorded.event
            if isinstance(event, Asked | Claimed | Replied):
                for grant_id in event.uses:
                    is_taken = (session, event.request_id) in self._takers[grant_id]
                    assert is_taken or grant_id not in self._limits, f"{event} by a use that was not taken"
