"""The rewrite of a stream without some content, also of a sealed one: its file is written anew, and the stub follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.errors import SealedError, StoreError
from ledger.core.limits import PAGE_COUNT
from ledger.log.archive.archive import Archive
from ledger.log.verify import head_of
from ledger.stores.admin import StreamRewrite
from ledger.stores.port import START, Append, Appended, AppendResult, Behind, Conflict, Entry, Store, StreamKey
from ledger.stores.sealed import Seal

ROUNDS_MAX: Final = 8
"""Times that a stream may be sealed, brought back or moved while it is rewritten."""


class ArchivedRewrite:
    """An implementation of `ledger.stores.admin.StreamRewrite` for streams on the server and in the archive.

    Of a sealed stream nothing comes back to the server. Until the stub names the new file, which was read back before,
    the old one is valid, and nothing refers to the new one. The old file stays: `ledger.log.archive.sweeping` removes it.
    """

    def __init__(
        self, store: Store, archive: Archive, inner: StreamRewrite, key: StreamKey, versions: Sequence[int]
    ) -> None:
        self._store = store
        self._archive = archive
        self._inner = inner
        self._key = key
        self._versions = frozenset(versions)

    async def finish(self, append: Append) -> AppendResult:
        for _ in range(ROUNDS_MAX):
            # Asked first: the inner rewrite takes a lease, which would outlive this process if it is killed.
            (seal,) = await self._store.admin.seals([self._key])
            try:
                done = await (self._inner.finish(append) if seal is None else self._finish_sealed(seal, append))
            except SealedError:
                continue
            if done is not None:
                return done
        raise StoreError(
            f"stream `{self._key.name}` was moved {ROUNDS_MAX} times in a row; try again", stream=self._key.name
        )

    async def close(self) -> None:
        await self._inner.close()

    async def _finish_sealed(self, seal: Seal, append: Append) -> AppendResult | None:
        """Write a sealed stream to a new file, and let its stub follow; return None if another process was first."""
        entries = await self._archive.entries_or_moved(self._key, seal)
        if entries is None:
            return None
        now_ms = await self._store.now_ms()
        if append.after != seal.head:
            return _unseen(entries, append, now_ms)
        ((payload, content),) = append.payloads
        event = Entry(max(now_ms, seal.head.ms), seal.head.version + 1, payload, content or None)
        kept = [one._replace(content=None) if one.version in self._versions else one for one in entries]
        files = await self._archive.files()
        manifest = await files.write({self._key: [*kept, event]}, now_ms, replaces=seal.file)
        to = Seal(event.position, head_of(event).hash, manifest.file, now_ms)
        if not await self._store.admin.reseal(self._key, seal, to):
            return None
        return Appended(event.ms, now_ms)


def _unseen(entries: Sequence[Entry], append: Append, now_ms: int) -> AppendResult:
    """Return what a server answers to an append that is not after the last entry."""
    head = entries[-1].position
    if append.after != START and all(one.position != append.after for one in entries):
        return Behind(head, now_ms)
    unseen = tuple(one for one in entries if one.position > append.after)
    return Conflict(unseen[:PAGE_COUNT], head, now_ms)
