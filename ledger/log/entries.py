"""Decoding and checks of a stream's entries, one by one before they are folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ledger.core import codec
from ledger.core.commitments import follows, genesis
from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.core.grants import Recorded
from ledger.core.limits import ENTRY_MS_MAX
from ledger.session.brief import fill_in
from ledger.stores.port import START, Entry, Foreign, Position, Store, StreamInfo, StreamKey
from ledger.stores.values import RawEntry

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
