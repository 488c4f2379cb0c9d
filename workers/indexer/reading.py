"""Steps of an index, read from the log: what a session's next entries change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from ledger.core.codec import NewerEvent
from ledger.core.errors import DamageError, NewerSchemaError
from ledger.log.entries import check_info, read_entry
from ledger.log.short_streams import SHORT_COUNT
from ledger.log.tail import BEFORE_FIRST, LostHistoryError, entry_at, read_pages
from ledger.stores.port import START, Entry, Store, StreamKey
from ledger.stores.values import ShortStream
from projections.search_rows import ContentGone, SearchChange, search_change
from workers.indexer.file import NO_HEAD, IndexedHead, SessionStep

STEP_EVENTS: Final = 500
"""Entries of one step of a long session."""


class ReadStep(NamedTuple):
    """A step; `more`: the session may have entries after it. `damage`: the entry after it cannot be read."""

    step: SessionStep
    more: bool
    damage: DamageError | None = None


async def next_steps(store: Store, heads: Sequence[tuple[str, IndexedHead]]) -> list[ReadStep]:
    """Return the next step of each session as of its checkpoint. Raises StoreError."""
    begun = [StreamKey("session", session) for session, head in heads if head.at == START]
    whole = dict(zip(begun, await store.short_streams(begun, SHORT_COUNT), strict=True)) if begun else {}
    return await asyncio.gather(
        *(_next(store, session, head, whole.get(StreamKey("session", session))) for session, head in heads)
    )


async def _next(store: Store, session: str, head: IndexedHead, whole: ShortStream | None) -> ReadStep:
    key = StreamKey("session", session)
    try:
        if whole is not None:
            check_info(key, whole.info)
            return _step(key, head, BEFORE_FIRST, whole.entries, more=False)
        known = BEFORE_FIRST if head.at == START else await entry_at(store, key, head.at)
        if known is not None:
            async for page in read_pages(store, key, known, count=STEP_EVENTS):
                return _step(key, head, known, page, more=len(page) == STEP_EVENTS)
            return ReadStep(SessionStep(session, False, (), head), more=False)
    except LostHistoryError:
        pass
    except DamageError as error:
        return ReadStep(SessionStep(session, False, (), head), more=False, damage=error)
    # The log lost entries that were read, or the session is gone: it is read from its beginning.
    return ReadStep(SessionStep(session, True, (), NO_HEAD), more=True)


def _step(key: StreamKey, head: IndexedHead, known: Entry, page: Sequence[Entry], *, more: bool) -> ReadStep:
    """Return the changes of a page. Rows that may hold redacted content are dropped and read again instead.

    All of one page is as of one moment, so what a redaction in it took out is out of it.
    """
    changes: list[SearchChange] = []
    clean = max(head.clean, page[-1].version) if head.at == START and page else head.clean
    before, damage = known, None
    for entry in page:
        try:
            # A row has neither the durations of a request nor the digest of the rules.
            recorded = read_entry(key, entry, before, before.payload, None)
            if isinstance(recorded.event, NewerEvent):
                raise NewerSchemaError(
                    f"stream `{key.name}` holds events of a newer version at version {entry.version}; "
                    "upgrade this worker",
                    stream=key.name,
                    version=entry.version,
                )
        except DamageError as error:
            damage, more = error, False
            break
        before, change = entry, search_change(recorded)
        if isinstance(change, ContentGone) and change.version > clean:
            # What is read from now on is without that content.
            return ReadStep(SessionStep(key.id, True, (), IndexedHead(START, change.version)), more=True)
        if change is not None:
            changes.append(change)
    return ReadStep(SessionStep(key.id, False, changes, IndexedHead(before.position, clean)), more, damage)
