"""The lag of an index behind the log, as the feeds tell it; nothing is read that grows with the log."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from ledger.stores.port import Store
from ledger.stores.secrets import deployment_secret
from workers.indexer.reader import IndexReader

NO_GROUP: Final = "indexer: no group"
"""A consumer group that never exists: the feeds are read from a place of one's own."""

LINES_AT_ONCE_COUNT: Final = 200
"""Lines of each partition's feed that are read together."""

ROUNDS_COUNT: Final = 6
"""Readings of the feeds for one answer; a feed is not longer than they read, or was trimmed."""


class IndexLag(NamedTuple):
    """Sessions and events that the index does not have; `whole` False: there may be more, the index is being built."""

    sessions: int
    events: int
    whole: bool


async def deployment_of(store: Store) -> str:
    """Return a name of the deployment that says nothing of its keys."""
    return sha256(b"search index\n" + await deployment_secret(store)).hexdigest()[:32]


async def lag_of(store: Store, index: IndexReader) -> IndexLag:
    """Return how far an index is behind. Raises StoreError."""
    since, whole = index.feeds(), index.is_whole
    versions: dict[str, int] = {}
    for _ in range(ROUNDS_COUNT):
        lines = await store.owed(NO_GROUP, since, LINES_AT_ONCE_COUNT)
        whole = whole and not any(one.trimmed for one in lines)
        for one in lines:
            since[one.partition] = one.after
            for item in one.items:
                if item.key.kind == "session":
                    versions[item.key.id] = max(item.version, versions.get(item.key.id, 0))
        if all(one.complete for one in lines):
            break
    else:
        whole = False
    known = index.versions(list(versions))
    behind = [version - known.get(session, 0) for session, version in versions.items()]
    behind = [one for one in behind if one > 0]
    return IndexLag(len(behind), sum(behind), whole)
