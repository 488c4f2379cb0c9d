"""Removal of files from the archive: those to which no stub refers, and those that hold more than stubs refer to.

A file goes only when each of its sessions is elsewhere, whole and with the same bytes: on the server, or in the file
that its stub names. So the files of another ledger, or of one that lost its server, stay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from ledger.core import codec
from ledger.core.errors import ArchiveError, DamageError, InputError, LedgerError
from ledger.core.events import Redacted, SessionOpened
from ledger.log.archive.archive import SEALS_AT_ONCE_COUNT, Archive
from ledger.log.archive.files import MANIFEST, ArchiveFiles, written_ms_of
from ledger.log.tail import read_pages
from ledger.log.verify import verify_entries
from ledger.stores.port import Entry, StreamKey
from ledger.stores.sealed import SEALING_MS, Seal
from ledger.stores.store import Store, streams_of

MOVES_MAX: Final = 8
"""Attempts to move all sessions out of a file, while others seal and restore them."""

HeldReason = Callable[[str, str | None], Awaitable[str | None]]
"""Returns the legal hold over a session and its project in words; None where there is none."""


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one file to which not all of its sessions' stubs refer.

    `rewritten`: `into` has the sessions that refer to it. `kept`: it stays for the reason `why`, and is a finding if it
    `is_problem`.
    """

    file: str
    done: Literal["removed", "rewritten", "kept"]
    sessions: int = 0
    into: str | None = None
    why: str | None = None
    is_problem: bool = False

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.file,
            "done": self.done,
            "sessions": self.sessions,
            "into": self.into,
            "why": self.why,
            "problem": self.is_problem,
        }


class Sweeping:
    """The removal of files of one ledger's archive. `store` reads sealed sessions (`with_archive`)."""

    def __init__(self, store: Store, archive: Archive, held: HeldReason) -> None:
        self._store = store
        self._archive = archive
        self._held = held

    async def sweep(self, older_than_ms: int, *, dry_run: bool = False) -> AsyncIterator[SweepResult]:
        """Iterate over the results for files that were written so long ago; those in full use have none.

        Raises InputError for files that may be of a sealing under way; ArchiveError, InDoubtError, StoreError.
        """
        if older_than_ms < SEALING_MS:
            raise InputError(
                f"a file may be of a sealing under way for {SEALING_MS // 60_000} minutes; sweep older ones only"
            )
        files = await self._archive.files()
        before_ms = await self._store.now_ms() - older_than_ms
        for file, names in await self._inventory(files):
            if written_ms_of(file) < before_ms:
                result = await self._tidied(files, file, names, dry_run=dry_run)
                if result is not None:
                    yield result

    async def forget(self, keys: Collection[StreamKey]) -> list[SweepResult]:
        """Remove what files hold of these sessions, if their stubs do not refer to it.

        Other sessions of such a file move to a new one first. Raises ArchiveError, InDoubtError, StoreError.
        """
        files, wanted, results = await self._archive.files(), set(keys), []
        for file, names in await self._inventory(files):
            try:
                here = wanted.intersection(await _streams_in(files, file, names))
            except DamageError as error:
                results.append(_kept(file, error.text))
                continue
            if not here:
                continue
            if not any(name.endswith(MANIFEST) for name in names):
                why = "it has no manifest: a sealing is under way, or was killed; sweep the archive later"
                results.append(_kept(file, why))
            elif (done := await self._tidied(files, file, names, dry_run=False)) is not None:
                results.append(done)
        return results

    async def _inventory(self, files: ArchiveFiles) -> list[tuple[str, set[str]]]:
        """Return all files in order. Raises ArchiveError for a place that is empty and has sealed sessions."""
        found = sorted((await files.inventory()).items())
        if not found:
            async for key in streams_of(self._store, sealed=True):
                raise ArchiveError(
                    f"the archive {files.url} has no files, and `{key.name}` is sealed: is it the place?"
                )
        return found

    async def _tidied(
        self, files: ArchiveFiles, file: str, names: Collection[str], *, dry_run: bool
    ) -> SweepResult | None:
        """Remove a file, after its sessions were moved; return None for one that is in full use."""
        try:
            keys = await _streams_in(files, file, names)
            seals = await self._seals(keys)
            mine = {key: seal for key, seal in seals.items() if seal is not None and seal.file == file}
            if keys and len(mine) == len(keys):
                return None if file in names else _kept(file, "it is lost, and sessions are in it")
            stale = [key for key in keys if key not in mine]
            why = await self._why_not(files, file, stale) if file in names else None
        except DamageError as error:
            return _kept(file, error.text)
        if why is not None:
            return why
        if dry_run:
            return SweepResult(file=file, done="rewritten" if mine else "removed", sessions=len(mine))
        await self._store.close_file(keys, file)
        into = await self._moved(files, file, keys)
        if isinstance(into, SweepResult):
            return into
        await files.remove(file, names)
        return SweepResult(file=file, done="rewritten" if into else "removed", sessions=len(mine), into=into)

    async def _moved(self, files: ArchiveFiles, file: str, keys: Sequence[StreamKey]) -> str | SweepResult | None:
        """Move the sessions that refer to a closed file to a new one, and return its name; None if there are none."""
        into: str | None = None
        for _ in range(MOVES_MAX):
            seals = await self._seals(keys)
            mine = {key: seal for key, seal in seals.items() if seal is not None and seal.file == file}
            if not mine:
                return into
            whole: dict[StreamKey, Sequence[Entry]] = {}
            for key, seal in mine.items():
                try:
                    entries = await self._archive.entries_or_moved(key, seal)
                except DamageError as error:
                    return _kept(file, error.text)
                if entries is not None:
                    whole[key] = entries
            if not whole:
                continue
            now_ms = await self._store.now_ms()
            into = (await files.write(whole, now_ms, replaces=file)).file
            for key in whole:
                seal = mine[key]
                await self._store.seal(key, Seal(seal.head, seal.hash, into, now_ms), seal)
        return _kept(file, "its sessions were moved by others all the while")

    async def _why_not(self, files: ArchiveFiles, file: str, keys: Iterable[StreamKey]) -> SweepResult | None:
        """Return the reason why the copies of these sessions in a file must stay. Raises DamageError for a broken file."""
        copies = await files.all_entries(file)
        for key in keys:
            why = await self._not_elsewhere(key, copies.get(key, []))
            if why is not None:
                return _kept(file, why)
        return None

    async def _not_elsewhere(self, key: StreamKey, copy: Sequence[Entry]) -> str | None:
        """Return how a session differs, outside a file, from the copy there: None if it has the same entries, or more."""
        if not copy:
            return f"its manifest names `{key.name}`, and it has no entries of that"
        try:
            entries = [entry async for page in read_pages(self._store, key) for entry in page]
            info = await self._store.info(key)
        except LedgerError as error:
            return f"`{key.name}` cannot be read elsewhere: {error.text}"
        other = f"this ledger does not have `{key.name}` as it is here"
        if not entries or verify_entries(key, entries, info):
            return other
        if _is_unfinished_redaction(copy[-1], entries):
            copy = copy[:-1]  # of a redaction that was not finished: it never took place
        if len(entries) < len(copy):
            return other
        pairs = list(zip(copy, entries, strict=False))
        if any(one[:3] != there[:3] or _differ(one.content, there.content) for one, there in pairs):
            return other
        # Content that is in this copy alone was redacted elsewhere, as `verify_entries` has found.
        if any(one.content is not None and there.content is None for one, there in pairs):
            return await self._held(key.id, _project_of(copy))
        return None

    async def _seals(self, keys: Sequence[StreamKey]) -> Mapping[StreamKey, Seal | None]:
        found: dict[StreamKey, Seal | None] = {}
        for start in range(0, len(keys), SEALS_AT_ONCE_COUNT):
            some = keys[start : start + SEALS_AT_ONCE_COUNT]
            found.update(zip(some, [one.seal for one in await self._store.heads(some)], strict=True))
        return found


async def _streams_in(files: ArchiveFiles, file: str, names: Collection[str]) -> list[StreamKey]:
    """Return the streams that a file has: by its manifest, or by itself where it has none. Raises DamageError."""
    if any(name.endswith(MANIFEST) for name in names):
        return [one.key for one in (await files.manifest(file)).streams]
    return list(await files.all_entries(file)) if file in names else []


def _project_of(entries: Sequence[Entry]) -> str | None:
    event = codec.decode(entries[0].payload).event
    return event.project if isinstance(event, SessionOpened) else None


def _is_unfinished_redaction(last: Entry, entries: Sequence[Entry]) -> bool:
    """Return whether the last entry of a copy is a redaction that the session itself does not have there."""
    there = next(iter(entries[last.version - 1 : last.version]), None)
    return (there is None or there[:3] != last[:3]) and isinstance(codec.decode(last.payload).event, Redacted)


def _differ(one: bytes | None, other: bytes | None) -> bool:
    return one is not None and other is not None and one != other


def _kept(file: str, why: str) -> SweepResult:
    return SweepResult(file=file, done="kept", why=why, is_problem=True)
