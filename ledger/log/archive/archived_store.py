"""A store whose sealed streams are read from the archive, and brought back before anything is written to them.

It is the one place where a sealed stream is told from another: every reader and writer of the ledger uses it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ledger.core.errors import SealedError, StoreError
from ledger.core.limits import PAGE_COUNT
from ledger.log.archive.archive import Archive
from ledger.log.archive.rewriting import rewrite_anywhere
from ledger.stores.port import (
    START,
    Answered,
    Append,
    AppendResult,
    Due,
    Entry,
    Following,
    Opening,
    Position,
    Store,
    StreamInfo,
    StreamKey,
    streams_of,
)
from ledger.stores.sealed import Seal
from ledger.stores.values import ShortStream

T = TypeVar("T")

ROUNDS_MAX: Final = 5
"""Times that a stream may be sealed again right after it was brought back for a write."""


def with_archive(store: Store) -> Store:
    """Return a store that reads sealed streams of another one from its archive."""
    return cast("Store", _ArchivedStore(store))


def archive_of(store: Store) -> Archive:
    """Return the archive of a store that `with_archive` returned."""
    return cast("Any", store).archive  # type: ignore[no-any-return]


async def all_streams(store: Store) -> AsyncIterator[StreamKey]:
    """Iterate over all streams; after them over the sealed ones, which can be read where a place was set."""
    async for key in streams_of(store):
        yield key
    archive: Archive | None = getattr(store, "archive", None)
    if archive is not None and await archive.url() is not None:
        async for key in streams_of(store, sealed=True):
            yield key


class _ArchivedStore:
    """Everything that is not about entries of a stream is the inner store's."""

    def __init__(self, store: Store) -> None:
        self._inner = store
        self.archive = Archive(store)
        self._tasks: set[asyncio.Task[None]] = set()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    # --- writing ----------------------------------------------------------------------------------------------------

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        def told(result: AppendResult | Exception, beside: tuple[Entry, ...]) -> None:
            if isinstance(result, SealedError):
                task = asyncio.create_task(self._post_restored(result, append, answered, also_read))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                answered(result, beside)

        self._inner.post(append, told, also_read)

    async def _post_restored(
        self,
        sealed: SealedError,
        append: Append,
        answered: Answered,
        also_read: tuple[StreamKey, Position] | None,
    ) -> None:
        """Bring a stream back, and post its append again."""
        try:
            await self.archive.restore(sealed.key, sealed.seal)
        except Exception as error:  # noqa: BLE001 - the callback is the only way to report it
            answered(error, ())
            return
        self.post(append, answered, also_read)

    async def restore(self, key: StreamKey, after: Position, entries: Sequence[Entry], due: Due | None) -> bool:
        for _ in range(ROUNDS_MAX):
            try:
                return await self._inner.restore(key, after, entries, due)
            except SealedError as error:
                await self.archive.restore(error.key, error.seal)
        raise StoreError(
            f"stream `{key.name}` was sealed again {ROUNDS_MAX} times in a row; try again", stream=key.name
        )

    async def rewrite(self, key: StreamKey, versions: Sequence[int], following: Following) -> None:
        await rewrite_anywhere(self._inner, self.archive, key, versions, following)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def open(self, key: StreamKey) -> Opening:
        async def sealed(seal: Seal, entries: Sequence[Entry]) -> Opening:
            return Opening(_info_of(seal), tuple(entries[:PAGE_COUNT]), await self._inner.now_ms())

        return await self.answered(lambda: self._inner.open(key), sealed)

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        return await self.answered(lambda: self._inner.read(key, after, count), _page(after, count))

    async def info(self, key: StreamKey) -> StreamInfo | None:
        try:
            return await self._inner.info(key)
        except SealedError as error:
            return _info_of(error.seal)

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        async def sealed(_: Seal, entries: Sequence[Entry]) -> Entry | None:
            return next((one for one in entries[at.version - 1 : at.version] if one.position == at), None)

        return await self.answered(lambda: self._inner.confirm(key, at), sealed)

    async def correct_due(self, session: str, seen_ms: int | str | None, to: Due | str, *, at: Position) -> None:
        try:
            await self._inner.correct_due(session, seen_ms, to, at=at)
        except SealedError:
            return  # nothing of a sealed session is due

    async def short_streams(self, keys: Sequence[StreamKey], count: int) -> list[ShortStream | None]:
        found = await self._inner.short_streams(keys, count)
        left = [key for key, one in zip(keys, found, strict=True) if one is None]
        heads = dict(zip(left, await self._inner.heads(left), strict=True))
        short = {key: seal for key, (at, seal) in heads.items() if seal is not None and at.version < count}
        entries = await self.archive.entries_of_each(short) if short else {}
        # Who reads one by itself that is missing here is told what is wrong with it.
        return [
            ShortStream(_info_of(short[key]), tuple(entries[key])) if one is None and key in entries else one
            for key, one in zip(keys, found, strict=True)
        ]

    async def answered(
        self, inner: Callable[[], Awaitable[T]], sealed: Callable[[Seal, Sequence[Entry]], Awaitable[T]]
    ) -> T:
        """Return what the inner store answers, and for a sealed stream what is made of its seal and its entries."""
        for _ in range(ROUNDS_MAX):
            try:
                return await inner()
            except SealedError as error:
                entries = await self.archive.entries_or_moved(error.key, error.seal)
                if entries is not None:
                    return await sealed(error.seal, entries)
                moved = error.key.name
        raise StoreError(f"stream `{moved}` was moved {ROUNDS_MAX} times in a row; try again", stream=moved)


def _page(after: Position, count: int) -> Callable[[Seal, Sequence[Entry]], Awaitable[tuple[Entry, ...]]]:
    """Return what takes from all entries at most `count` that come after a position."""

    async def page(_: Seal, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        begin = bisect_right(entries, after, key=_position)
        return tuple(entries[begin : begin + count])

    return page


def _info_of(seal: Seal) -> StreamInfo:
    """Return the metadata of a stream as it was when it was sealed."""
    version = seal.head.version
    return StreamInfo(length=version, entries_added=version, last=seal.head, max_deleted=START)


def _position(entry: Entry) -> Position:
    return entry.position
