"""The appends of a stream, told apart by its chain: several may bear the same time."""

from __future__ import annotations

from ledger.core import chain, codec
from ledger.stores.port import Entry


def are_one_append(before: Entry, entry: Entry) -> bool:
    """Return whether an entry was appended together with the one before it. Raises DamageError."""
    if before.ms != entry.ms:
        return False
    prev = codec.decode(entry.payload, entry.content).prev
    return prev == chain.within_append(before.version, before.payload)
