"""The rewrite of a stream without some content, also of a sealed one: its file is written anew, and the stub follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.errors import SealedError, StoreError
from ledger.core.limits import PAGE_COUNT
from ledger.log.archive.archive import Archive
from ledger.log.verify import head_of
from ledger.stores.port import (
    START,
    Append,
    Appended,
    AppendResult,
    Behind,
    Conflict,
    Entry,
    Following,
    Store,
    StreamKey,
)
from ledger.stores.sealed import Seal

ROUNDS_MAX: Final = 8
"""Times that a stream may be sealed, brought back or moved while it is rewritten."""


async def rewrite_anywhere(
    store: Store, archive: Archive, key: StreamKey, versions: Sequence[int], following: Following
) -> None:
    """As `Store.rewrite`, of a stream on the server or in the archive.

    Of a sealed stream nothing comes back to the server. Until the stub names the new file, which was read back before,
    the old one is valid, and nothing refers to the new one. The old file stays: `ledger.log.archive.sweeping` removes it.
    """
    append, rounds = await following(None), 0

    async def on_the_server(result: AppendResult | None) -> Append | None:
        nonlocal append, rounds
        if result is not None:
            append, rounds = await following(result), 0
        return append

    while append is not None and rounds < ROUNDS_MAX:
        rounds += 1
        # Asked first: the rewrite on the server takes a lease, which would outlive this process if it is killed.
        seal = (await store.heads([key]))[0].seal
        try:
            if seal is None:
                await store.rewrite(key, versions, on_the_server)
            elif (done := await _append_sealed(store, archive, seal, versions, append)) is not None:
                await on_the_server(done)
        except SealedError:
            continue
    if append is not None:
        raise StoreError(f"stream `{key.name}` was moved {ROUNDS_MAX} times in a row; try again", stream=key.name)


async def _append_sealed(
    store: Store, archive: Archive, seal: Seal, versions: Sequence[int], append: Append
) -> AppendResult | None:
    """Write a sealed stream to a new file, and let its stub follow; return None if another process was first."""
    key = append.key
    entries = await archive.entries_or_moved(key, seal)
    if entries is None:
        return None
    now_ms = await store.now_ms()
    if append.after != seal.head:
        return _unseen(entries, append, now_ms)
    ((payload, content),) = append.payloads
    event = Entry(max(now_ms, seal.head.ms), seal.head.version + 1, payload, content or None)
    kept = [one._replace(content=None) if one.version in versions else one for one in entries]
    files = await archive.files()
    manifest = await files.write({key: [*kept, event]}, now_ms, replaces=seal.file)
    to = Seal(event.position, head_of(event).hash, manifest.file, now_ms)
    return Appended(event.ms, now_ms) if await store.seal(key, to, seal) else None


def _unseen(entries: Sequence[Entry], append: Append, now_ms: int) -> AppendResult:
    """Return what a server answers to an append that is not after the last entry."""
    head = entries[-1].position
    if append.after != START and all(one.position != append.after for one in entries):
        return Behind(head, now_ms)
    unseen = tuple(one for one in entries if one.position > append.after)
    return Conflict(unseen[:PAGE_COUNT], head, now_ms)
