"""The tail of a stream: its entries after a known one, in bounded pages, each decoded and checked against the one before.

Every reader of a stream uses it. The known entry is read again with each page, so that a reader notices when the server
has lost entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, TypeVar

import msgspec

from ledger.access.state import AccessState, evolve_access
from ledger.core import codec
from ledger.core.commitments import follows, genesis
from ledger.core.errors import DamageError, StoreError
from ledger.core.events import Redacted
from ledger.core.grants import Recorded
from ledger.core.limits import ENTRY_MS_MAX, PAGE_COUNT
from ledger.policy.stored_rules import RulesState, evolve_rules
from ledger.project import ProjectState, evolve_project
from ledger.session.brief import SAYING, fill_in
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from ledger.stores.port import START, Entry, Foreign, Position, RawEntry, ShortStream, StreamInfo, StreamKey
from ledger.stores.store import Store

WITHOUT_CONTENT: Final = "has lost its content, and no `redacted` event names it"


class MissingContent:
    """Versions of one stream that lack their content, and that no redaction names so far."""

    __slots__ = ("_versions",)

    def __init__(self) -> None:
        self._versions: set[int] = set()

    def take(self, version: int, recorded: Recorded) -> None:
        """Note an entry that lacks its content, or a redaction, which explains those that it names."""
        if isinstance(recorded.event, Redacted):
            self._versions.difference_update(recorded.event.versions)
        if recorded.redacted:
            self._versions.add(version)

    def __bool__(self) -> bool:
        return bool(self._versions)

    def require_none(self, key: StreamKey) -> None:
        """Raise DamageError where a version of the whole stream lacks its content unexplained."""
        if self._versions:
            version = min(self._versions)
            raise DamageError(
                f"stream `{key.name}` version {version} {WITHOUT_CONTENT}; run verify", stream=key.name, version=version
            )


def read_entry(key: StreamKey, entry: Entry, before: Position | Entry, before_payload: bytes, state: Any) -> Recorded:
    """Decode one entry and check that it follows the one before. Raises DamageError.

    `state` is that before the entry, or one that says as much (`ledger.session.brief.KnownMembers`): it makes the event whole.
    Without it (None) an event may lack its durations and the digest of the rules, and says so (`brief`).
    """
    ms, version, payload, content = entry
    if ms > ENTRY_MS_MAX:
        check_entry_time(key, entry.position)
    if version != before.version + 1:
        raise DamageError(
            f"stream `{key.name}` has version {entry.version} after {before.version}; run verify",
            stream=key.name,
            version=entry.version,
        )
    try:
        envelope = codec.decode(payload, content)
    except DamageError as error:
        raise DamageError(
            f"stream `{key.name}` version {entry.version}: {error.text}", stream=key.name, version=entry.version
        ) from error
    if version == 1:
        linked = before.ms == 0 and envelope.prev == genesis(key.kind, key.id)
    else:
        linked = ms >= before.ms and follows(envelope.prev, ms, before.ms, before.version, before_payload)
    if not linked:
        raise DamageError(
            f"stream `{key.name}` version {entry.version} does not follow the entry before it; run verify",
            stream=key.name,
            version=entry.version,
        )
    fill_in(envelope.event, state)
    redacted = codec.is_redacted(envelope, content)
    return Recorded(envelope.event, envelope.actor, ms, version, envelope.id, redacted)


def check_entry_time(key: StreamKey, at: Position) -> None:
    """Raise DamageError for a time outside the range that can be formatted."""
    if at.ms > ENTRY_MS_MAX:
        raise DamageError(
            f"stream `{key.name}` version {at.version} is dated {at.ms} ms, after the year 9989; run verify",
            stream=key.name,
            version=at.version,
        )


def contradicts(page: Sequence[Entry], known: Position, known_payload: bytes) -> bool:
    """Return whether a page contradicts the last entry known: the server lost an entry that a wake-up carried.

    The content of an entry may have been redacted since.
    """
    return any(
        (entry.version == known.version and (entry.position, entry.payload) != (known, known_payload))
        or (entry.version < known.version and entry.position > known)
        for entry in page
    )


def check_info(key: StreamKey, info: StreamInfo | None) -> None:
    """Check that a stream's metadata is that of an append-only log. Raises DamageError."""
    if info is None:
        return
    check_entry_time(key, info.last)
    if info.length == 0:
        raise DamageError(f"stream `{key.name}` exists but is empty: its entries were deleted", stream=key.name)
    if info.max_deleted != START:
        raise DamageError(f"stream `{key.name}`: entry {info.max_deleted} was deleted", stream=key.name)
    if not info.length == info.entries_added == info.last.version:
        raise DamageError(
            f"stream `{key.name}` has {info.length} entries, {info.entries_added} were added and the last version is "
            f"{info.last.version}: these must be the same",
            stream=key.name,
        )


async def raw_page(store: Store, key: StreamKey, after: Position, count: int) -> tuple[RawEntry, ...]:
    """Return entries as stored, including those that the ledger did not write. Raises StoreError."""
    try:
        return tuple(_raw(entry) for entry in await store.read(key, after, count))
    except Foreign as error:
        return error.entries


def _raw(entry: Entry) -> RawEntry:
    content = () if entry.content is None else ((b"x", entry.content),)
    return RawEntry(str(entry.position), ((b"d", entry.payload), *content))


S = TypeVar("S")

BEFORE_FIRST: Final = Entry(*START, b"")
"""The known entry of a reader that begins with the first one."""


class LostHistoryError(DamageError):
    """A stream lacks an entry that was read before: its server lost it (in a failover)."""


async def read_pages(
    store: Store, key: StreamKey, known: Entry = BEFORE_FIRST, until: int | None = None, count: int = PAGE_COUNT
) -> AsyncIterator[Sequence[Entry]]:
    """Iterate over the entries after `known`, in pages of at most `count`, up to version `until` (None: the last).

    From the first entry, the stream's metadata is checked too. Raises StoreError, DamageError, and LostHistoryError
    when the stream does not hold `known`.
    """
    while until is None or known.version < until:
        page = await _page_after(store, key, known, count)
        if page:
            yield page if until is None else page[: until - known.version]
            known = page[-1]
        if len(page) < count:
            return


async def _page_after(store: Store, key: StreamKey, known: Entry, count: int) -> Sequence[Entry]:
    if known.version == 0:
        with foreign_is_damage(key):
            opening = await store.open(key)
        check_info(key, opening.info)
        return opening.entries[:count]
    with foreign_is_damage(key):
        page = await store.read(key, Position(known.ms, known.version - 1), count + 1)
    # Its content may have been redacted since.
    if not page or page[0][:3] != known[:3]:
        raise LostHistoryError(
            f"stream `{key.name}` was read up to {known.position}, which its log does not hold", stream=key.name
        )
    return page[1:]


@contextmanager
def foreign_is_damage(key: StreamKey) -> Iterator[None]:
    """Raise DamageError for an entry that is not in the ledger's format."""
    try:
        yield
    except Foreign as error:
        raise DamageError(f"stream `{key.name}`: {error.text}", stream=key.name) from error


async def entry_at(store: Store, key: StreamKey, at: Position) -> Entry | None:
    """Return the entry at a position. Raises StoreError, DamageError."""
    with foreign_is_damage(key):
        found = await store.read(key, Position(at.ms, at.version - 1), 1) if at.version > 0 else ()
    return found[0] if found and found[0].position == at else None


async def read_events(store: Store, key: StreamKey) -> AsyncIterator[Recorded]:
    """Iterate over the present events of a stream, verifying the chain. Raises DamageError at the first damage."""
    before, state = BEFORE_FIRST, nothing_folded(key).state
    async for page in read_pages(store, key):
        for entry in page:
            recorded = read_entry(key, entry, before, before.payload, state)
            if type(recorded.event) in SAYING:
                state = evolve_any(state, recorded)
            yield recorded
            before = entry


class Folded(msgspec.Struct, Generic[S], frozen=True, gc=False):
    """The state of a stream as of an entry.

    `lost` are the versions whose content is gone though no event up to there says that it was redacted.
    """

    state: S
    last: Entry = BEFORE_FIRST
    lost: frozenset[int] = frozenset()

    @property
    def position(self) -> Position:
        return self.last.position

    @property
    def version(self) -> int:
        return self.last.version

    def next(self, key: StreamKey, entry: Entry) -> tuple[Recorded, Folded[S]]:
        """Return the event of the next entry and the fold after it. Raises DamageError when it does not follow."""
        recorded = read_entry(key, entry, self.last, self.last.payload, self.state)
        lost = self.lost
        if lost and isinstance(recorded.event, Redacted):
            lost = lost.difference(recorded.event.versions)
        if recorded.redacted:
            lost = lost.union((entry.version,))
        return recorded, Folded(evolve_any(self.state, recorded), entry, lost)


def nothing_folded(key: StreamKey) -> Folded[Any]:
    """Return the fold of a stream before its first entry."""
    match key.kind:
        case "session":
            return Folded(SessionState(session_id=key.id))
        case "project":
            return Folded(ProjectState(project_id=key.id))
        case "access":
            return Folded(AccessState(access_id=key.id))
        case "policy":
            return Folded(RulesState(policy_digest=key.id))


def evolve_any(state: Any, recorded: Recorded) -> Any:
    """Return the state of any kind of stream after its next event."""
    if isinstance(state, SessionState):
        return evolve(state, recorded)
    if isinstance(state, ProjectState):
        return evolve_project(state, recorded)
    if isinstance(state, RulesState):
        return evolve_rules(state, recorded)
    return evolve_access(state, recorded)


def fold_entries(key: StreamKey, folded: Folded[S], entries: Iterable[Entry]) -> Folded[S]:
    """Return the fold after these entries. Raises DamageError when they do not follow."""
    for entry in entries:
        _, folded = folded.next(key, entry)
    return folded


async def read_folds(
    store: Store, key: StreamKey, folded: Folded[S], until: int | None = None, count: int = PAGE_COUNT
) -> AsyncIterator[tuple[Recorded, Folded[S]]]:
    """Iterate over the events after a fold, with the fold after each; bounds and errors as in `read_pages`."""
    async for page in read_pages(store, key, folded.last, until, count):
        for entry in page:
            recorded, folded = folded.next(key, entry)
            yield recorded, folded


READ_AT_ONCE_COUNT: Final = 32
SHORT_COUNT: Final = PAGE_COUNT // READ_AT_ONCE_COUNT
"""A stream of fewer entries is short, so that one read has at most as many entries as one page of a long stream."""


async def read_short_streams(
    store: Store, keys: Sequence[StreamKey]
) -> AsyncIterator[tuple[StreamKey, ShortStream | None]]:
    """Iterate over streams in order, each with its content; None for one that is to be read page by page.

    While some are handled, the next ones are read. Raises StoreError.
    """
    portions = [keys[start : start + READ_AT_ONCE_COUNT] for start in range(0, len(keys), READ_AT_ONCE_COUNT)]
    reading: asyncio.Task[list[ShortStream | None]] | None = None
    try:
        for index, portion in enumerate(portions):
            found = await (reading or _begin(store, portion))
            reading = _begin(store, portions[index + 1]) if index + 1 < len(portions) else None
            # One turn of the loop sends the next read: the server works on it meanwhile.
            await asyncio.sleep(0)
            for key, short in zip(portion, found, strict=True):
                yield key, short
    finally:
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, StoreError):
                await reading


def _begin(store: Store, keys: Sequence[StreamKey]) -> asyncio.Task[list[ShortStream | None]]:
    return asyncio.create_task(store.short_streams(keys, SHORT_COUNT), name="ledger read of short streams")
