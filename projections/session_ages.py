"""The places of all sessions, the one whose last event is the oldest first: a walk that passes over none.

A session that goes on meanwhile moves to the end, which is still to come. So every session comes at least once, and one
that goes on after it came, comes again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ledger.log.places import ALL
from ledger.log.unprojected import unprojected
from ledger.stores.port import Store
from projections.sessions import LATEST_VIEW, Latest


async def oldest_first(store: Store, after: Latest | None, count: int) -> AsyncIterator[list[Latest]]:
    """Iterate over the sessions after a place, in pages of about `count`. Raises StoreError."""
    keys = sorted(key for key in await unprojected(store) if key.kind == "session")
    ahead = frozenset(key.id for key in keys)
    heads = await store.heads(keys)
    # A stream without entries, or that is none any more, comes first: its reader says what is wrong.
    moved = [Latest(head.at.ms, key.id) for key, head in zip(keys, heads, strict=True)]
    left = [one for one in moved if after is None or one.order < after.order]
    while True:
        begin = "" if after is None else ALL + after.order
        fields = await store.view_page(LATEST_VIEW, ALL, count, begin, backwards=True)
        places = [Latest.of_field(field) for field in fields]
        is_last = len(places) < count
        due = left if is_last else [one for one in left if one.order > places[-1].order]
        left = [] if is_last else [one for one in left if one.order <= places[-1].order]
        found = [*(one for one in places if one.session not in ahead), *due]
        yield sorted(found, key=_order, reverse=True)
        if is_last:
            return
        after = places[-1]


def _order(place: Latest) -> str:
    return place.order
