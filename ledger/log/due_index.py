"""The index of deadlines beside the log: what it is to have of a session, and the sessions that it lacks.

The index is a hint: a session that it lacks is settled by its next command only. So it can be made anew, from the log or
from the views of pending requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from ledger.log.places import ALL, WAITING_VIEW, WaitingPlace
from ledger.log.tail import nothing_folded, read_folds
from ledger.session.state import SessionState, next_due_ms
from ledger.stores.port import NOTHING_DUE, Due, StreamKey
from ledger.stores.store import Store

COMPARED_AT_ONCE_COUNT: Final = 500
"""Pending requests of the views that are compared with the index at once."""

INDEX_COUNT_MAX: Final = 10_000_000
"""Sessions of a partition that are read from the index together: all of them."""


TOLERATED_MS: Final = 1000
"""The difference between an entry and the deadline that is no fault: a writer estimates the server's time."""


def hint_of(state: SessionState) -> Due | str:
    """Return what the index is to have of a session: its earliest deadline, or NOTHING_DUE."""
    due_ms = next_due_ms(state)
    return Due(due_ms) if due_ms is not None or state.pending else NOTHING_DUE


def as_seen(hint: Due | str) -> int | str | None:
    """Return a hint in the form in which `Store.due_of` does."""
    return hint.ms if isinstance(hint, Due) else hint


def is_late(seen_ms: int | str | None, due_ms: int | None) -> bool:
    """Return whether an entry of the index is missing, or later than a deadline (None: never).

    One that is too early costs a look: it is corrected then.
    """
    if isinstance(seen_ms, str):
        return True
    return due_ms is not None and (seen_ms is None or seen_ms > due_ms + TOLERATED_MS)


def differs(seen_ms: int | str | None, to_ms: int | str | None) -> bool:
    """Return whether an entry is another one than it is to be, beyond what is tolerated."""
    if isinstance(seen_ms, int) and isinstance(to_ms, int):
        return abs(seen_ms - to_ms) > TOLERATED_MS
    return seen_ms != to_ms


async def is_entry_late(store: Store, key: StreamKey) -> bool:
    """Return whether the entry of a session is late by its log. Raises StoreError, and the errors of `read_folds`."""
    folded = nothing_folded(key)
    async for _, after in read_folds(store, key, folded):
        folded = after
    hint = hint_of(folded.state)
    (seen_ms,) = await store.due_of([key.id])
    # What a newer version wrote may have ended what looks due.
    return isinstance(hint, Due) and not folded.state.newer and is_late(seen_ms, hint.ms)


async def lacking(store: Store) -> AsyncIterator[dict[str, int | str | None]]:
    """Iterate over the sessions whose entry is late for a request in the pending views, page by page; some are empty.

    Each comes with its entry. The views may lag behind the sessions, which alone tell what is due. Raises StoreError.
    """
    after = ""
    while True:
        fields = await store.view_page(WAITING_VIEW, ALL, COMPARED_AT_ONCE_COUNT, after)
        places = [WaitingPlace.of_field(field) for field in fields]
        sessions = list(dict.fromkeys(one.session for one in places))
        seen = dict(zip(sessions, await store.due_of(sessions), strict=True))
        yield {one.session: seen[one.session] for one in places if is_late(seen[one.session], one.deadline_ms)}
        if len(fields) < COMPARED_AT_ONCE_COUNT:
            return
        after = fields[-1]
