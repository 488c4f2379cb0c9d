"""The events and rules of a ledger, loaded into a database for queries: what is on the server copied, files of the archive named."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ledger import Ledger
from ledger.core.errors import DamageError, LedgerError
from ledger.log.archive.archived_store import archive_of
from ledger.log.archive.columns import ArchiveRow, rows_of
from ledger.log.short_streams import read_short_streams
from ledger.log.tail import read_pages
from ledger.stores.port import Entry, StreamKey
from ledger.stores.sealed import Seal
from workers.upkeep.event_database import EventDatabase, RuleRow
from workers.upkeep.stored_rulesets import KIND, StoredRuleset, read_stored_ruleset

KINDS: Final = ("session", "project")
"""The kinds of streams whose events are loaded. Those of access hold digests of secrets, and no requests."""

STREAMS_COUNT: Final = 500
ROWS_COUNT: Final = 10_000
"""Bounds of what is in memory at once, besides one page of a long stream."""


class Loaded(msgspec.Struct, kw_only=True):
    """The loaded events, and the reason for each stream that could not be read."""

    live_events: int = 0
    live_streams: int = 0
    sealed_streams: int = 0
    failed: dict[str, str] = {}


async def load_events(ledger: Ledger, database: EventDatabase) -> Loaded:
    """Load all sessions, projects and rules, and lock the database. Raises ArchiveError, StoreError."""
    loading = _Loading(ledger, database)
    async for keys in _pages_of_keys(ledger):
        rules = [key for key in keys if key.kind == KIND]
        await loading.take([key for key in keys if key.kind in KINDS])
        await loading.take_rules(rules)
    await loading.end()
    await asyncio.to_thread(database.lock)
    return loading.loaded


class _Loading:
    def __init__(self, ledger: Ledger, database: EventDatabase) -> None:
        self._ledger = ledger
        self._database = database
        self._rows: list[ArchiveRow] = []
        self._paths: dict[str, Path | str] = {}
        self._rulesets: set[StreamKey] = set()
        self.loaded = Loaded(failed={})

    async def take(self, keys: Sequence[StreamKey]) -> None:
        keys, seals = await self._seals(keys)
        sealed: dict[str, Path] = {}
        for key, seal in zip(keys, seals, strict=True):
            path = None if seal is None else await self._path(seal)
            if isinstance(path, Path):
                sealed[key.name] = path
            elif path is not None:
                self.loaded.failed[key.name] = path
        self.loaded.sealed_streams += len(sealed)
        await asyncio.to_thread(self._database.add_sealed, sealed)
        live = [key for key, seal in zip(keys, seals, strict=True) if seal is None]
        async for key, short in read_short_streams(self._ledger.store, live):
            try:
                await self._add(key, None if short is None else short.entries)
            except DamageError as error:
                self.loaded.failed[key.name] = error.text

    async def take_rules(self, keys: Sequence[StreamKey]) -> None:
        for key in keys:
            if key in self._rulesets:
                continue
            self._rulesets.add(key)
            found = await read_stored_ruleset(self._ledger.store, key.id)
            if found.problem is not None:
                self.loaded.failed[key.name] = found.problem
            await asyncio.to_thread(self._database.add_rules, list(_rule_rows(found)))

    async def _seals(self, keys: Sequence[StreamKey]) -> tuple[Sequence[StreamKey], Sequence[Seal | None]]:
        """Return the streams whose stub, if there is one, can be read, each with its seal."""
        admin = self._ledger.store.admin
        try:
            return keys, await admin.seals(keys)
        except DamageError:
            found: list[tuple[StreamKey, Seal | None]] = []
            for key in keys:
                try:
                    found.append((key, (await admin.seals([key]))[0]))
                except DamageError as error:
                    self.loaded.failed[key.name] = error.text
            return [key for key, _ in found], [seal for _, seal in found]

    async def end(self) -> None:
        some, self._rows = self._rows, []
        await asyncio.to_thread(self._database.add, some)

    async def _path(self, seal: Seal) -> Path | str:
        """Return the path from which a file can be read now; the reason for one that cannot."""
        if seal.file not in self._paths:
            try:
                files = await archive_of(self._ledger.store).files()
                path = await files.path_of(seal.file)
                if not files.url.startswith("file:"):
                    # What a process keeps of an object store goes when others are read.
                    path = await asyncio.to_thread(_kept, path, self._database.folder / path.name)
                self._paths[seal.file] = path
            except LedgerError as error:
                self._paths[seal.file] = error.text
        return self._paths[seal.file]

    async def _add(self, key: StreamKey, entries: Sequence[Entry] | None) -> None:
        permissions: dict[str, str] = {}
        before = self.loaded.live_events
        async for page in read_pages(self._ledger.store, key) if entries is None else _one(entries):
            rows = list(rows_of(key, page, permissions))
            self.loaded.live_events += len(rows)
            self._rows += rows
            if len(self._rows) >= ROWS_COUNT:
                await self.end()
        self.loaded.live_streams += self.loaded.live_events > before


def _rule_rows(ruleset: StoredRuleset) -> Iterator[RuleRow]:
    dialect = ruleset.source.dialect if ruleset.source else ""
    for number, rule in enumerate(ruleset.rules, 1):
        yield RuleRow(
            digest=ruleset.digest,
            dialect=dialect,
            number=number,
            action=rule.action.value,
            permission=rule.permission,
            pattern=rule.pattern,
            layer=rule.ref.layer,
            place=rule.place if rule.ref.file else None,
        )


def _kept(path: Path, to: Path) -> Path:
    """Return a second name of a file, or a copy on another disk."""
    try:
        to.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, to)
    return to


async def _one(page: Sequence[Entry]) -> AsyncIterator[Sequence[Entry]]:
    yield page


async def _pages_of_keys(ledger: Ledger) -> AsyncIterator[list[StreamKey]]:
    some: list[StreamKey] = []
    async for key in ledger.store.streams():
        if key.kind in KINDS or key.kind == KIND:
            some.append(key)
        if len(some) == STREAMS_COUNT:
            yield some
            some = []
    if some:
        yield some
