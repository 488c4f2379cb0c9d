"""Sealed streams of a ledger in this process's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger.stores.port import Due, Entry, StreamKey
from ledger.stores.sealed import SEALING_MS, Seal, check_entries, check_sealable, encode_seal, sealed_error

if TYPE_CHECKING:
    from ledger.stores.memory import MemoryServer, MemoryStore


def entries_in(server: MemoryServer, key: StreamKey) -> list[Entry]:
    """Return the entries of a stream. Raises SealedError."""
    seal = server.seals.get(key)
    if seal is not None:
        raise sealed_error(key, seal)
    return server.streams.get(key, [])


class MemorySealing:
    """The part of `ledger.stores.admin.Admin` for sealed streams, in memory."""

    _store: MemoryStore
    _server: MemoryServer

    async def seal(self, key: StreamKey, seal: Seal) -> bool:
        check_sealable(key)
        encode_seal(seal)
        server = self._server
        if key in server.seals:
            return server.seals[key] == seal
        held = server.streams.get(key)
        if not held or held[-1].position != seal.head or not self._takes(seal):
            return False
        server.seals[key] = seal
        del server.streams[key]
        server.due.pop(key.id, None)
        self._store.feed(key, seal.head.version, is_move=True)
        return True

    async def seals(self, keys: Sequence[StreamKey]) -> list[Seal | None]:
        return [self._server.seals.get(key) for key in keys]

    async def reseal(self, key: StreamKey, seal: Seal, to: Seal) -> bool:
        check_sealable(key)
        encode_seal(to)
        held = self._server.seals
        if held.get(key) not in (seal, to):
            return False
        if held[key] != to:
            if not self._takes(to):
                return False
            held[key] = to
            if to.head != seal.head:
                self._store.tell(key, [Entry(*to.head, b"")], inline=False)
        return True

    async def close_file(self, keys: Sequence[StreamKey], file: str) -> None:
        self._server.closed_files.add(file)

    def _takes(self, seal: Seal) -> bool:
        """Return whether a stub may still name its file."""
        is_late = self._server.clock.now_ms() > seal.sealed_ms + SEALING_MS
        return not is_late and seal.file not in self._server.closed_files

    async def unseal(self, key: StreamKey, seal: Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        check_entries(key, seal, entries)
        server = self._server
        if key in server.streams:
            return any(one[:3] == entries[-1][:3] for one in server.streams[key])
        if server.seals.get(key) != seal:
            return False
        del server.seals[key]
        server.streams[key] = list(entries)
        if due is not None:
            server.due[key.id] = math.inf if due.ms is None else float(due.ms)
        self._store.tell(key, list(entries), inline=False, is_move=True)
        return True
