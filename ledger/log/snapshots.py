"""Snapshots: stored folds of long streams as of an entry, from which folding continues.

A cache that projectors write and every process may begin a fold from. A snapshot is used only if it was made by byte for
byte the same folding code, is complete, and if the log has the exact entry that it is as of, whose hash chain commits to
all entries before it. Removing every snapshot only costs time.

It is one field of a hash: the digest of the rest, and the rest.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec
from rpds import HashTrieMap

from ledger.core.events import Settings
from ledger.core.grants import Grants, StandingGrant
from ledger.core.packed_records import PackedRecords
from ledger.log.tail import Folded, entry_at
from ledger.log.viewed import checkpoints, fields_of_streams
from ledger.project import ProjectState
from ledger.session.state import SETTLED_PACKING, Client, LockRequest, PendingRequests, Request, SessionState
from ledger.stores.port import Position, StreamKey, ViewAdvance, ViewWrite
from ledger.stores.store import Store

SNAPSHOTS_VIEW: Final = "snapshots"
"""The view of snapshots: a cache, not part of the views' content."""

SNAPSHOT_EVERY_EVENTS: Final = 1000
"""Shorter streams fold in milliseconds."""

SNAPSHOT_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger one is not stored: the server writes it in one piece, and serves nobody meanwhile."""

_EVENT_BYTES: Final = 700
"""The bytes of a usual event in the log. A snapshot is taken after at least half as many bytes of events as it writes."""

_PENDING_BYTES: Final = 1200
_SETTLED_BYTES: Final = 250
_GRANT_BYTES: Final = 400
_NOTED_BYTES: Final = 60
"""Estimates of what a state takes when it is stored."""

DIGEST_BYTES: Final = 32

_FOLDING_CODE: Final = ("ledger.core", "ledger.masks", "ledger.session", "ledger.session.would_run")
"""The packages whose code makes a fold."""

_FOLDING_FILES: Final = (("ledger", "project.py"), ("ledger.log", "snapshots.py"))

StoredState: TypeAlias = SessionState | ProjectState

_MAPS: Final[dict[str, Any]] = {
    "pending": dict[str, Request],
    "settled": dict[str, bytes],
    "grants": dict[str, StandingGrant],
    "clients": dict[str, Client],
    "noted": dict[str, bool],
    "open_claims": dict[int, str],
}
_WHOLE: Final[dict[str, Any]] = {
    "pending": lambda pending: PendingRequests.of(pending.values()),
    "settled": lambda settled: PackedRecords.of(SETTLED_PACKING, settled),
    "grants": lambda grants: Grants.of(grants.values()),
}
"""Makers of the maps that are more than a map."""

_VALUES: Final[dict[str, Any]] = {
    "settings": Settings,
    "lock_request": LockRequest | None,
}


def _shape_of(state: type[StoredState]) -> type[msgspec.Struct]:
    """Return a Struct with the same members, where dictionaries replace the maps that msgspec cannot encode."""
    types = {**_MAPS, **_VALUES}
    return msgspec.defstruct(f"_{state.__name__}", [(name, types.get(name, Any)) for name in state.__struct_fields__])


_STATES: Final[dict[str, tuple[type[StoredState], type[msgspec.Struct]]]] = {
    "session": (SessionState, _shape_of(SessionState)),
    "project": (ProjectState, _shape_of(ProjectState)),
}
"""The states of the kinds of streams that may grow long, and their stored shapes; the access streams are short."""


class _Snapshot(msgspec.Struct, frozen=True):
    """A snapshot: the digest of the folding code, id and digest of the entry that it is as of, and the state."""

    code: str
    at: str
    entry: bytes
    state: bytes


def is_snapshot_due(before_version: int, folded: Folded[Any]) -> bool:
    """Return whether a fold that went on from a version is to be stored.

    The larger the state, the rarer: so snapshots write at most about twice as many bytes as the log itself.
    """
    every = SNAPSHOT_EVERY_EVENTS
    while 2 * every * _EVENT_BYTES < _stored_bytes(folded.state):
        every *= 2
    return before_version // every < folded.version // every


async def snapshot_writes(store: Store, key: StreamKey, folded: Folded[Any]) -> list[ViewWrite]:
    """Return the change that stores a fold; none when it cannot be stored.

    A fold of entries that lost their content is not stored, so that its reader notices that.
    """
    code = _code_digest()
    if code is None or key.kind not in _STATES or folded.lost or folded.state.newer:
        return []
    if (await store.heads([key]))[0].seal is not None:
        # What is sealed has left the server.
        return []
    try:
        state = _encode(folded.state)
    except OverflowError:
        # JSON has larger numbers than the encoding of a state.
        return []
    if len(state) > SNAPSHOT_BYTES_MAX:
        return []
    snapshot = msgspec.msgpack.encode(_Snapshot(code, str(folded.position), _digest(folded.last.payload), state))
    return [ViewWrite(SNAPSHOTS_VIEW, key.name, _digest(snapshot) + snapshot)]


def removal_writes(key: StreamKey) -> list[ViewWrite]:
    """Return the change that removes the snapshot of a stream."""
    return [ViewWrite(SNAPSHOTS_VIEW, key.name, None)]


async def remove_snapshot(store: Store, key: StreamKey) -> None:
    """Remove the snapshot of a stream that takes no new one, unless a projector is at work on its views.

    A snapshot that stays is still bound to its entry. Raises StoreError.
    """
    (at,) = await checkpoints(store, [key])
    await store.project(key.partition(store.partition_count), [ViewAdvance(key, at, at)], removal_writes(key))


async def load_snapshot(store: Store, key: StreamKey, until_version: int) -> Folded[Any] | None:
    """Return the fold of a snapshot, if it is valid and not beyond a version. Raises StoreError, DamageError."""
    if key.kind not in _STATES:
        return None
    (held,) = await fields_of_streams(store, SNAPSHOTS_VIEW, [(key, key.name)])
    if held is None or held[:DIGEST_BYTES] != _digest(held[DIGEST_BYTES:]):
        return None
    try:
        snapshot = msgspec.msgpack.decode(held[DIGEST_BYTES:], type=_Snapshot)
        position = Position.parse(snapshot.at)
        if snapshot.code != _code_digest() or position.version > until_version:
            return None
        entry = await entry_at(store, key, position)
        if entry is None or _digest(entry.payload) != snapshot.entry:
            return None
        state = _decode(key, snapshot.state)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError):
        return None
    is_of_entry = (state.version, state.last_ms) == (position.version, position.ms)
    return Folded(state, entry) if is_of_entry and not state.newer else None


@cache
def _code_digest() -> str | None:
    """Return a digest of the folding code's sources; None where they are not files."""
    from importlib.resources import files  # noqa: PLC0415 - slow to import, and only long streams need it

    whole = sha256()
    try:
        for package in _FOLDING_CODE:
            sources = sorted((one.name, one) for one in files(package).iterdir() if one.name.endswith(".py"))
            for name, source in sources:
                whole.update(f"{package}/{name}\0".encode() + source.read_bytes() + b"\0")
        for package, name in _FOLDING_FILES:
            whole.update(files(package).joinpath(name).read_bytes())
    except OSError:
        return None
    return whole.hexdigest()


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()


def _stored_bytes(state: Any) -> int:
    """Return an estimate of what a snapshot of a state takes."""
    size = len(state.grants) * _GRANT_BYTES if isinstance(state, StoredState) else 0
    if isinstance(state, SessionState):
        size += len(state.settled) * _SETTLED_BYTES
        size += len(state.pending) * _PENDING_BYTES + len(state.noted) * _NOTED_BYTES
    return size


def _encode(state: StoredState) -> bytes:
    members = {name: getattr(state, name) for name in state.__struct_fields__}
    return msgspec.msgpack.encode({name: _plain(value) for name, value in members.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, PackedRecords):
        return value.packed()
    return dict(value.items()) if isinstance(value, HashTrieMap | PendingRequests | Grants) else value


def _decode(key: StreamKey, data: bytes) -> StoredState:
    kind, shape = _STATES[key.kind]
    stored = msgspec.msgpack.decode(data, type=shape)
    members = {name: getattr(stored, name) for name in shape.__struct_fields__}
    return kind(
        **{name: _WHOLE.get(name, HashTrieMap)(value) if name in _MAPS else value for name, value in members.items()}
    )
