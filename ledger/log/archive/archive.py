"""The archive of a deployment: the place that its own settings name, sealed sessions read from it and brought back.

`with_archive` returns a store whose sealed streams are read and rewritten there, and brought back before anything else
is written. It is the one place where a sealed stream is told from another: every reader and writer of the ledger uses it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ledger.core.errors import ArchiveError, DamageError, InputError, LedgerError, SealedError, StoreError
from ledger.core.limits import PAGE_COUNT
from ledger.log.archive.buckets import MissingFileError, check_url, open_bucket
from ledger.log.archive.files import ArchiveFiles
from ledger.log.archive.manifests import Manifest
from ledger.log.fold_cache import SizedCache, cache_bytes
from ledger.log.surveys import paged
from ledger.log.verify import Head, head_of
from ledger.stores.port import (
    START,
    Append,
    Appended,
    AppendResult,
    Behind,
    Conflict,
    Due,
    Entry,
    Opening,
    Position,
    ShortStream,
    StreamInfo,
    StreamKey,
)
from ledger.stores.sealed import Seal, sealed_error
from ledger.stores.store import Answered, Following, Store, streams_of

NOTES: Final = "archive"
"""The name of the deployment's notes about its archive."""

URL: Final = "url"

ENTRY_BYTES: Final = 250
"""The room that an entry takes besides its bytes."""

SEALS_AT_ONCE_COUNT: Final = 500

REPLACED_SECONDS: Final = 30.0
"""The time for which it is not looked again for files in the place of a lost one."""


class Archive:
    """The archive of the deployment of a store, which raises SealedError for sealed streams."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files: ArchiveFiles | None = None
        self._replaced: dict[str, tuple[float, Sequence[Manifest]]] = {}
        self._kept: SizedCache[tuple[Seal, Sequence[Entry]]] = SizedCache(cache_bytes("sealed"))

    async def url(self) -> str | None:
        """Return the URL of the place, None where none was set. Raises StoreError."""
        noted = (await self._store.notes(NOTES)).get(URL)
        return None if noted is None else noted.decode()

    async def set_url(self, text: str) -> str:
        """Set the place, and return its URL in full. A place that lacks the files of sealed sessions is refused.

        Raises InputError, MissingExtraError, ArchiveError, StoreError.
        """
        url = check_url(text)
        if url == await self.url():
            return url
        files = ArchiveFiles(open_bucket(url))
        lost = await self.lost(files)
        if lost:
            raise InputError(
                f"the archive {url} lacks the file `{min(lost)}`, which has sealed sessions; copy all files there first"
            )
        await self._store.note(NOTES, URL, url.encode())
        self._files = files
        return url

    async def files(self) -> ArchiveFiles:
        """Return the files of the archive. Raises ArchiveError where no place was set, MissingExtraError, StoreError."""
        if self._files is None:
            url = await self.url()
            if url is None:
                raise ArchiveError(
                    "no archive is set for this ledger; name its place with `permission-ledger archive --to URL`"
                )
            self._files = ArchiveFiles(open_bucket(url))
        return self._files

    async def entries(self, key: StreamKey, seal: Seal) -> Sequence[Entry]:
        """Return all entries of a sealed stream, verified against its seal.

        Raises DamageError, which names a file that is lost or was changed; SealedError where no place was set;
        ArchiveError, MissingExtraError, StoreError.
        """
        kept = self._kept.get(key)
        if kept is not None and kept[0] == seal:
            return kept[1]
        entries = await self._read(key, seal)
        size_bytes = sum(len(one.payload) + len(one.content or b"") + ENTRY_BYTES for one in entries)
        self._kept.put(key, (seal, entries), size_bytes)
        return entries

    async def entries_of_each(self, seals: Mapping[StreamKey, Seal]) -> dict[StreamKey, Sequence[Entry]]:
        """Return all entries of sealed streams, verified against their seals; those of one file are read together.

        Streams that cannot be read are left out; who reads one by itself is told why.
        """
        found: dict[StreamKey, Sequence[Entry]] = {}
        by_file: dict[str, dict[StreamKey, Head]] = defaultdict(dict)
        for key, seal in seals.items():
            kept = self._kept.get(key)
            if kept is not None and kept[0] == seal:
                found[key] = kept[1]
            else:
                by_file[seal.file][key] = Head(seal.head, seal.hash)
        # A place that is out of reach for one file is not asked for the others, which would each take its time limit.
        with suppress(LedgerError):
            files = await self.files()
            for file, heads in by_file.items():
                found |= await files.whole_streams(file, heads)
        return found

    async def in_file_order(self, keys: Iterable[StreamKey]) -> list[StreamKey]:
        """Return streams by name, and behind them the sealed ones, those of one file together. Raises StoreError.

        In this order they are read fastest.
        """
        ordered = sorted(keys)
        if await self.url() is None:
            return ordered
        files: list[str] = []
        same: dict[str, str] = {}
        for start in range(0, len(ordered), SEALS_AT_ONCE_COUNT):
            heads = await self._store.heads(ordered[start : start + SEALS_AT_ONCE_COUNT])
            names = ("" if one.seal is None else one.seal.file for one in heads)
            # A million stubs name a few hundred files.
            files += [same.setdefault(name, name) for name in names]
        return [key for _, key in sorted(zip(files, ordered, strict=True))]

    async def _read(self, key: StreamKey, seal: Seal) -> Sequence[Entry]:
        if self._files is None and await self.url() is None:
            raise sealed_error(key, seal)
        files, head = await self.files(), Head(seal.head, seal.hash)
        try:
            return await files.entries(key, seal.file, head)
        except (DamageError, ArchiveError):
            # Another process may have moved the archive since this one opened it.
            if files.url == await self.url():
                raise
        self._files = None
        return await (await self.files()).entries(key, seal.file, head)

    async def restore(self, key: StreamKey, seal: Seal) -> bool:
        """Bring a sealed stream back to the server; return False if it has another seal, or none, by now.

        Raises DamageError, ArchiveError, MissingExtraError, StoreError.
        """
        entries = await self.entries_or_moved(key, seal)
        # What is sealed waits for nothing, so that nothing of it is due.
        return entries is not None and await self._store.restore(key, seal, entries, None)

    async def entries_or_moved(self, key: StreamKey, seal: Seal) -> Sequence[Entry] | None:
        """Return all entries of a sealed stream; None if it has another seal, or none, by now. Raises as `entries`."""
        try:
            return await self.entries(key, seal)
        except (DamageError, ArchiveError) as error:
            if await self._has_moved(key, seal, error):
                return None
            raise

    async def _has_moved(self, key: StreamKey, seal: Seal, error: LedgerError) -> bool:
        """Return whether a stub has changed since it was read, or changes now since its file was replaced."""
        if (await self._store.heads([key]))[0].seal != seal:
            return True
        if not isinstance(error.__cause__, MissingFileError):
            return False
        to = await self._replacement(key, seal)
        return to is not None and await self._store.seal(key, to, seal)

    async def _replacement(self, key: StreamKey, seal: Seal) -> Seal | None:
        """Return the seal of a file that was written in the place of a lost one.

        A server that lost its last second, or came from a backup, has the stub from before. Raises StoreError.
        """
        files = await self.files()
        for manifest in await self._replacing(files, seal.file):
            line = next((one for one in manifest.streams if one.key == key), None)
            if line is None or line.versions < seal.head.version:
                continue
            try:
                entries = await files.entries(key, manifest.file, line.head)
            except (DamageError, ArchiveError):
                continue
            if head_of(entries[seal.head.version - 1]) == Head(seal.head, seal.hash):
                return Seal(line.head.position, line.hash, manifest.file, await self._store.now_ms())
        return None

    async def _replacing(self, files: ArchiveFiles, file: str) -> Sequence[Manifest]:
        """Return the manifests of the files in the place of a lost one, read once for all of its sessions."""
        now, known = asyncio.get_running_loop().time(), self._replaced.get(file)
        if known is None or now - known[0] > REPLACED_SECONDS:
            known = self._replaced[file] = now, await files.replacing(file)
        return known[1]

    async def lost(self, files: ArchiveFiles, *, deep: bool = True) -> set[str]:
        """Return the names of files with sealed sessions that a place lacks.

        Without `deep` the files of one page of sessions are looked for, and those of which the manifest is left.
        Raises ArchiveError, StoreError.
        """
        there, named = await files.inventory(), set[str]()
        for file, names in there.items():
            if file not in names:
                with suppress(DamageError):
                    named |= await self._named([one.key for one in (await files.manifest(file)).streams]) & {file}
        async for keys in paged(streams_of(self._store, sealed=True), SEALS_AT_ONCE_COUNT):
            named |= await self._named(keys)
            if not deep:
                break
        return {file for file in named if file not in there.get(file, ())}

    async def _named(self, keys: Sequence[StreamKey]) -> set[str]:
        return {seal.file for _, seal in await self._store.heads(keys) if seal is not None}


REWRITES_MAX: Final = 8
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

    while append is not None and rounds < REWRITES_MAX:
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
        raise StoreError(f"stream `{key.name}` was moved {REWRITES_MAX} times in a row; try again", stream=key.name)


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
        def passed_on(result: AppendResult | Exception, companions: tuple[Entry, ...]) -> None:
            if isinstance(result, SealedError):
                task = asyncio.create_task(self._post_restored(result, append, answered, also_read))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                answered(result, companions)

        self._inner.post(append, passed_on, also_read)

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

    async def restore(self, key: StreamKey, after: Position | Seal, entries: Sequence[Entry], due: Due | None) -> bool:
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
        begin = bisect_right(entries, after, key=lambda entry: entry.position)
        return tuple(entries[begin : begin + count])

    return page


def _info_of(seal: Seal) -> StreamInfo:
    """Return the metadata of a stream as it was when it was sealed."""
    version = seal.head.version
    return StreamInfo(length=version, entries_added=version, last=seal.head, max_deleted=START)
