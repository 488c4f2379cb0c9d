"""Sealing of sessions: which may be sealed, and the order of steps in which no crash loses anything.

A session is read, checked, written to the archive and read back from there; only then a stub takes its place on the
server, in one step and only if nothing was appended meanwhile. Until that step the server has it, whatever else exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from ledger.core.errors import ArchiveError, DamageError, LedgerError
from ledger.core.times import DAY_MS, format_time
from ledger.log.archive.archive import Archive
from ledger.log.archive.manifests import ArchivedStream, Manifest
from ledger.log.snapshots import SNAPSHOT_EVERY_EVENTS, remove_snapshot
from ledger.log.streams import Streams
from ledger.log.surveys import paged
from ledger.log.tail import fold_entries, nothing_folded, read_pages, read_short_streams
from ledger.log.verify import WholeEntries, head_of, whole_entries
from ledger.log.viewed import checkpoints
from ledger.session.state import SessionState, next_due_ms
from ledger.stores.port import Position, ShortStream, StreamKey
from ledger.stores.sealed import Seal
from ledger.stores.store import Store

IDLE_MS: Final = 30 * DAY_MS
"""The time after its last event from which an open session may be sealed, unless a caller says otherwise."""

FILE_EVENTS: Final = 20_000
FILE_BYTES: Final = 16 * 1024 * 1024
"""Bounds of the sessions of one file; one session alone may have more."""


LOOKED_AT_COUNT: Final = 512
"""Sessions that are looked at together."""

SEALED_AT_ONCE_COUNT: Final = 64
"""Stubs that travel together."""


class SealRule(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that may be sealed: closed ones, and those without an event for `idle_ms`; of a project if given."""

    idle_ms: int = IDLE_MS
    project: str | None = None


class SealResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one session. `kept` is the reason why it stays on the server, None for one that is sealed.

    `file` None without a reason is a dry run: it would be sealed.
    """

    key: StreamKey
    events: int = 0
    file: str | None = None
    kept: str | None = None
    is_damaged: bool = False

    def as_json(self) -> dict[str, object]:
        return {
            "session": self.key.id,
            "sealed": self.file is not None and self.kept is None,
            "events": self.events,
            "file": self.file,
            "kept": self.kept,
            "damaged": self.is_damaged,
        }


class _Ready(msgspec.Struct, frozen=True):
    """A session that may be sealed, with all of its entries."""

    key: StreamKey
    entries: WholeEntries
    size_bytes: int


BringUp = Callable[[StreamKey], Awaitable[object]]
"""Brings up the views of a stream, and with them the grants of its project."""


class _Portion:
    """The sessions of the next file, within its bounds."""

    def __init__(self) -> None:
        self.sessions: list[_Ready] = []
        self._events = 0
        self._bytes = 0

    def takes(self, one: _Ready) -> bool:
        """Add a session if there is room for it; there is for the first."""
        events, size_bytes = self._events + len(one.entries), self._bytes + one.size_bytes
        if self.sessions and (events > FILE_EVENTS or size_bytes > FILE_BYTES):
            return False
        self.sessions.append(one)
        self._events, self._bytes = events, size_bytes
        return True


class Sealing:
    """Seals sessions of a store, many to a file. Safe to run in several processes at once.

    `bring_up` is called for a session that its views are behind of; without it such a session stays.
    """

    def __init__(
        self, store: Store, streams: Streams, archive: Archive, rule: SealRule, bring_up: BringUp | None = None
    ) -> None:
        self._store = store
        self._streams = streams
        self._archive = archive
        self._rule = rule
        self._bring_up = bring_up

    async def seal(self, keys: AsyncIterator[StreamKey], *, dry_run: bool = False) -> AsyncGenerator[SealResult, None]:
        """Iterate over the results for these sessions; a file is written when it is full, and at the end.

        A dry run takes the views for brought up. Raises ArchiveError, MissingExtraError, InDoubtError, SetupError,
        StoreError; sessions of which no result came are on the server.
        """
        if not dry_run:
            await self._archive.files()
        portion = _Portion()
        writing: asyncio.Task[list[SealResult]] | None = None
        try:
            async for page in paged(keys, LOOKED_AT_COUNT):
                async for ready in self._looked_at(page, dry_run=dry_run):
                    if isinstance(ready, SealResult):
                        yield ready
                    elif dry_run:
                        yield SealResult(key=ready.key, events=len(ready.entries))
                    elif portion.takes(ready):
                        continue
                    else:
                        # While a file is written, the sessions of the next one are looked at.
                        for result in () if writing is None else await writing:
                            yield result
                        writing = asyncio.create_task(self._sealed(portion.sessions), name="ledger archive file")
                        portion = _Portion()
                        portion.takes(ready)
            for result in () if writing is None else await writing:
                yield result
            writing = None
            for result in await self._sealed(portion.sessions) if portion.sessions else ():
                yield result
        finally:
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    async def _looked_at(self, keys: Sequence[StreamKey], *, dry_run: bool) -> AsyncIterator[_Ready | SealResult]:
        """Iterate over sessions that may be sealed, and over the reasons why others may not."""
        heads = await self._store.heads(keys)
        projected = dict(zip(keys, await checkpoints(self._store, keys), strict=True))
        left: list[StreamKey] = []
        for key, (head, seal) in zip(keys, heads, strict=True):
            if seal is None:
                left.append(key)
            else:
                yield SealResult(key=key, events=head.version, file=seal.file, kept="it is sealed already")
        now_ms = await self._store.now_ms()
        async for key, short in read_short_streams(self._store, left):
            try:
                found = short or await self._read(key)
                yield await self._judged(key, found, projected[key], now_ms, dry_run=dry_run)
            except DamageError as error:
                yield SealResult(key=key, kept=f"it cannot be read: {error.text}", is_damaged=True)

    async def _read(self, key: StreamKey) -> ShortStream | None:
        """Return a stream that is not short. Raises DamageError."""
        info = await self._store.info(key)
        entries = [entry async for page in read_pages(self._store, key) for entry in page]
        return None if info is None or not entries else ShortStream(info, tuple(entries))

    async def _judged(
        self, key: StreamKey, found: ShortStream | None, projected: Position, now_ms: int, *, dry_run: bool
    ) -> _Ready | SealResult:
        """Return a session that may be sealed, or the reason why not. Raises DamageError."""
        if found is None:
            return SealResult(key=key, kept="there is no such session")
        info, entries = found
        whole = whole_entries(key, entries, info)
        if not isinstance(whole, WholeEntries):
            return SealResult(key=key, events=len(entries), kept=f"it is damaged: {whole.text}", is_damaged=True)
        state: SessionState = fold_entries(key, nothing_folded(key), entries).state
        kept = _own_reason(state, now_ms, self._rule)
        if kept is None and not dry_run:
            kept = await self._debt(key, state, entries[-1].position, projected)
        if kept is not None:
            return SealResult(key=key, events=len(entries), kept=kept)
        size_bytes = sum([len(one.payload) + len(one.content or b"") for one in entries])
        return _Ready(key, whole, size_bytes)

    async def _debt(self, key: StreamKey, state: SessionState, head: Position, projected: Position) -> str | None:
        """Return what is still owed to a session's events elsewhere; None for one that may be sealed."""
        if projected != head and self._bring_up is not None:
            await self._bring_up(key)
            (projected,) = await checkpoints(self._store, [key])
        if projected != head:
            return "its views are behind: run the projector, or `permission-ledger rebuild`"
        return await self._missing_grant(state)

    async def _missing_grant(self, state: SessionState) -> str | None:
        """Return the reason to keep a session whose answers made grants that its project does not have so far."""
        made = [one for one in state.settled.values() if one.granted_to_project and one.grants]
        if not made or state.project is None:
            return None
        project = self._streams.project(state.project)
        known = (await project.refresh()).grants
        missing = next((grant for one in made for grant in one.grants if grant not in known), None)
        if missing is not None:
            return f"project `{state.project}` lacks its grant `{missing}`: the projector writes it"
        await project.make_safe()
        return None

    async def _sealed(self, some: Sequence[_Ready]) -> list[SealResult]:
        """Write sessions to a new file, and seal those to which nothing was appended meanwhile."""
        files = await self._archive.files()
        manifest = await files.write({one.key: one.entries for one in some}, await self._store.now_ms())
        written = {one.key: one for one in manifest.streams}
        results: list[SealResult] = []
        for start in range(0, len(some), SEALED_AT_ONCE_COUNT):
            portion = some[start : start + SEALED_AT_ONCE_COUNT]
            results += await asyncio.gather(*(self._seal(one, written[one.key], manifest) for one in portion))
        return results

    async def _seal(self, one: _Ready, written: ArchivedStream, manifest: Manifest) -> SealResult:
        """Put the stub in the place of a session, of which the archive has been read back."""
        head = head_of(one.entries[-1])
        if written.head != head:
            raise ArchiveError(f"the file `{manifest.file}` does not have `{one.key.name}` as it was read")
        seal = Seal(head.position, head.hash, manifest.file, manifest.written_ms)
        if await self._store.seal(one.key, seal):
            if len(one.entries) >= SNAPSHOT_EVERY_EVENTS:
                # Sealed is sealed: a snapshot that stays takes room, and is still bound to its entry.
                with suppress(LedgerError):
                    await remove_snapshot(self._store, one.key)
            return SealResult(key=one.key, events=len(one.entries), file=manifest.file)
        kept = "it went on, or was sealed by another process, while it was written to the archive"
        return SealResult(key=one.key, events=len(one.entries), kept=kept)


def _own_reason(state: SessionState, now_ms: int, rule: SealRule) -> str | None:
    """Return the reason in a session itself why it stays on the server. Pure."""
    if state.newer:
        return "it has events of a newer version: upgrade this program"
    if rule.project is not None and state.project != rule.project:
        return f"it is not of project `{rule.project}`"
    if state.closed_ms is None and now_ms - state.last_ms < rule.idle_ms:
        return f"it is open, and its last event is of {format_time(state.last_ms)}"
    if state.pending:
        return f"{len(state.pending)} of its requests are pending"
    if state.open_claims:
        return f"{len(state.open_claims)} of its calls are claimed and have no recorded end"
    if next_due_ms(state) is not None:
        return "something in it is due later"
    return None
