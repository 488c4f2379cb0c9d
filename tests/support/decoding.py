"""Entries of a log as events, without the client that writes them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ledger.core.grants import Recorded
from ledger.log.tail import evolve_any, nothing_folded, read_entry
from ledger.session.brief import SAYING
from ledger.stores.port import START, Entry, Position, StreamKey


def decoded(key: StreamKey, entries: Iterable[Entry]) -> list[Recorded]:
    """Return the whole events of a log from its beginning, each checked to follow the one before."""
    state = nothing_folded(key).state
    records: list[Recorded] = []
    for before, entry in pairwise([Entry(*START, b""), *entries]):
        recorded = read_entry(key, entry, Position(before.ms, before.version), before.payload, state)
        if type(recorded.event) in SAYING:
            state = evolve_any(state, recorded)
        records.append(recorded)
    return records
