"""Sealed streams for tests of stores."""

from __future__ import annotations

from typing import Final

from ledger.core.commitments import after_entry
from ledger.stores.port import Due, Entry, StreamKey
from ledger.stores.sealed import Seal, archive_file
from ledger.stores.store import Store
from tests.support.backends import SESSION, log_of, written

FILE: Final = "2026/11/shop-0001.jsonl.zst"


def seal_of(entries: tuple[Entry, ...], file: str = FILE) -> Seal:
    last = entries[-1]
    return Seal(last.position, after_entry(last.ms, last.version, last.payload), file, last.ms + 5)


def named_seal_of(entries: tuple[Entry, ...]) -> Seal:
    """Return a seal whose file has the name that the archive gives."""
    seal = seal_of(entries)
    return seal_of(entries, archive_file(seal.sealed_ms, bytes(12)))


async def three(store: Store, key: StreamKey = SESSION, due: Due | None = None) -> tuple[Entry, ...]:
    await written(store, b"one", (b"two", b"content of two"), b"three", key=key, due=due)
    return await log_of(store, key)


async def sealed(store: Store, key: StreamKey = SESSION) -> tuple[Seal, tuple[Entry, ...]]:
    log = await three(store, key)
    seal = seal_of(log)
    assert await store.seal(key, seal)
    return seal, log
