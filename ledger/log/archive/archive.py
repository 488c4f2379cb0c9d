"""The archive of a deployment: the place that its own settings name, sealed sessions read from it and brought back."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ledger.core.errors import ArchiveError, DamageError, InputError, LedgerError
from ledger.log.archive.buckets import MissingFileError, check_url, open_bucket
from ledger.log.archive.files import ArchiveFiles
from ledger.log.archive.manifests import Manifest
from ledger.log.fold_room import SizedCache, sealed_room_bytes
from ledger.log.verify import Head, head_of
from ledger.stores.port import Entry, Store, StreamKey, streams_of
from ledger.stores.sealed import Seal, sealed_error

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
        self._kept: SizedCache[tuple[Seal, Sequence[Entry]]] = SizedCache(sealed_room_bytes())

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
        lacking = await self._lacking(files)
        if lacking is not None:
            raise InputError(
                f"the archive {url} lacks the file `{lacking}`, which has sealed sessions; copy all files there first"
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
        return entries is not None and await self._store.unseal(key, seal, entries, None)

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

    async def _lacking(self, files: ArchiveFiles) -> str | None:
        """Return a file of sealed sessions that a place lacks."""
        there = {name async for name in files.files()}
        some: list[StreamKey] = []
        async for key in streams_of(self._store, sealed=True):
            some.append(key)
            if len(some) == SEALS_AT_ONCE_COUNT:
                if (lacking := await self._lacking_of(some, there)) is not None:
                    return lacking
                some = []
        return await self._lacking_of(some, there)

    async def _lacking_of(self, keys: Sequence[StreamKey], there: set[str]) -> str | None:
        seals = [one.seal for one in await self._store.heads(keys)]
        return next((one.file for one in seals if one is not None and one.file not in there), None)
