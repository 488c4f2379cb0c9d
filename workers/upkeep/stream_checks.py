"""Checks of a stream: every entry as it lies on the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from ledger.access.passkeys.verification import Known
from ledger.client.passkeys.audit import PASSKEYS, Anchors, anchors_of, readable, unproven
from ledger.core import codec
from ledger.core.errors import DamageError
from ledger.core.events import SessionOpened
from ledger.core.limits import PAGE_COUNT
from ledger.log.verify import Head, Problem, head_of, read_entries
from ledger.stores.admin import RawEntry
from ledger.stores.port import START, Entry, Position, Store, StreamKey

_SIGNS: Final = (b'"demands"', b'"answer_by"', b'"proof', b'"passkey_')


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a stream; `head` None is a stream without a readable end, or without entries."""

    key: StreamKey
    versions: int
    head: Head | None
    problems: list[Problem]
    project: str | None = None
    is_there: bool = True
    redacted_count: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


async def check_stream(
    store: Store, key: StreamKey, known: Head | None = None, anchors: Anchors | None = None
) -> Checked:
    """Check a stream from its first entry; `known` is a head kept from before.

    `anchors` are the passkeys that signed answers are checked against; None skips those. Raises StoreError,
    MissingExtraError.
    """
    try:
        info = await store.info(key)
        entries = [entry async for entry in raw_entries(store, key)]
    except DamageError as error:
        return Checked(key=key, versions=0, head=None, problems=[Problem(None, "foreign", error.text)])
    # A long stream takes a second, in which a gateway must answer others.
    reading = await asyncio.to_thread(read_entries, key, entries, info, known, store.upgraded_ms)
    problems = reading.problems
    if anchors is not None and any(_may_be_signed(entry) for entry in entries):
        own = [entry for entry in map(plain, entries) if entry is not None]
        problems = problems + await asyncio.to_thread(unproven, key, readable(own), anchors)
    if info is None and known is None:
        problems = [Problem(None, "deleted", f"there is no stream `{key.name}`")]
    last = plain(entries[-1]) if entries else None
    return Checked(
        key=key,
        versions=len(entries),
        head=None if last is None else head_of(last),
        problems=problems,
        project=_project_of(key, entries),
        is_there=info is not None,
        redacted_count=reading.redacted_count,
    )


async def read_anchors(store: Store, kept: Known | None) -> Anchors:
    """Read the passkeys that signed answers are checked against. Raises StoreError, MissingExtraError."""
    try:
        entries = [entry async for entry in raw_entries(store, PASSKEYS)]
    except DamageError:
        entries = []  # the check of that stream reports the error
    own = [entry for entry in map(plain, entries) if entry is not None]
    return await asyncio.to_thread(anchors_of, list(readable(own)), kept)


def _may_be_signed(raw: RawEntry) -> bool:
    """Return whether an entry may hold a demand, a proof or a passkey: most streams have none, and need no fold."""
    return any(sign in value for _, value in raw.fields for sign in _SIGNS)


async def raw_entries(store: Store, key: StreamKey) -> AsyncIterator[RawEntry]:
    """Yield all entries, including those of other writers."""
    after = START
    while page := await store.admin.raw(key, after, PAGE_COUNT):
        for entry in page:
            yield entry
        after = Position.parse(page[-1].id)


def plain(raw: RawEntry) -> Entry | None:
    """Return an entry of the ledger's own form, or None."""
    if [name for name, _ in raw.fields] not in ([b"d"], [b"d", b"x"]):
        return None
    return Entry(*Position.parse(raw.id), *[value for _, value in raw.fields])


def _project_of(key: StreamKey, entries: list[RawEntry]) -> str | None:
    """Return the project of a session, if its first entry can be read."""
    first = plain(entries[0]) if entries and key.kind == "session" else None
    if first is None:
        return None
    try:
        event = codec.decode(first.payload, first.content).event
    except DamageError:
        return None
    return event.project if isinstance(event, SessionOpened) else None
