"""Snapshots: stored folds of long streams as of an entry, from which folding continues.

A cache that projectors write and every process may begin a fold from. A snapshot is used only if it was made by byte for
byte the same folding code, is complete, and if the log has the exact entry that it is as of, whose hash chain commits to
all entries before it. Removing every snapshot only costs time.

It is a hash field each for the head, for the state, and for every block of packed requests. The bytes of a block never
change, so that a snapshot writes only those blocks which the one before it did not have.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from rpds import HashTrieMap

from ledger.core.events import Settings
from ledger.core.grants import Grants, StandingGrant
from ledger.core.packed_map import PackedMap, Parts, from_parts
from ledger.log.tail import Folded, entry_at
from ledger.log.viewed import pointer
from ledger.project.state import ProjectState
from ledger.session.pending import PendingRequests
from ledger.session.state import SETTLED_PACKING, Client, LockRequest, Request, SessionState, Settled
from ledger.stores.port import Position, Store, StreamKey, ViewWrite

SNAPSHOTS_VIEW: Final = "snapshots"
"""The view of snapshots: a cache, not part of the views' content."""

SNAPSHOT_EVERY_EVENTS: Final = 1000
"""Shorter streams fold in milliseconds."""

STATE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A larger state is not stored: the server writes it in one piece. Blocks of packed requests do not count."""

BLOCKS_AT_ONCE_COUNT: Final = 128
"""Blocks that are read in one command."""

_EVENT_BYTES: Final = 700
"""The bytes of a usual event in the log. A snapshot is taken after at least as many bytes of events as it writes."""

_PENDING_BYTES: Final = 1200
_WHOLE_BYTES: Final = 1200
_GRANT_BYTES: Final = 400
_MARK_BYTES: Final = 12
_NOTED_BYTES: Final = 60
"""Estimates of what a state takes when it is stored."""

_FOLDING_CODE: Final = ("ledger.core", "ledger.project", "ledger.session", "ledger.session.would_run")
"""The packages whose code makes a fold."""

_STATE: Final = "state"

StoredState: TypeAlias = SessionState | ProjectState

_MAPS: Final[dict[str, Any]] = {
    "pending": dict[str, Request],
    "settled": Parts[Settled],
    "grants": dict[str, StandingGrant],
    "clients": dict[str, Client],
    "noted": dict[str, bool],
    "open_claims": dict[int, str],
}
_WHOLE: Final[dict[str, Any]] = {
    "pending": lambda pending: PendingRequests.of(pending.values()),
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


class _Head(msgspec.Struct, frozen=True):
    """The head of a snapshot: id and digest of the entry that it is as of, and the digests of its state and blocks."""

    code: str
    at: str
    entry: bytes
    state: bytes
    blocks: dict[int, bytes]


class SnapshotWrites(NamedTuple):
    """The changes that store a snapshot: its new blocks, in any number of steps, and after them the rest in one."""

    blocks: list[ViewWrite]
    last: list[ViewWrite]


def is_snapshot_due(before_version: int, folded: Folded[Any]) -> bool:
    """Return whether a fold that went on from a version is to be stored.

    The larger the state, the rarer: so snapshots write at most about as many bytes as the log itself.
    """
    every = SNAPSHOT_EVERY_EVENTS
    while every * _EVENT_BYTES < _stored_bytes(folded.state):
        every *= 2
    return before_version // every < folded.version // every


async def snapshot_writes(store: Store, key: StreamKey, folded: Folded[Any]) -> SnapshotWrites | None:
    """Return the changes that store a fold, or None when it cannot be stored.

    A fold of entries that lost their content is not stored, so that its reader notices that.
    """
    code = _code_digest()
    if code is None or key.kind not in _STATES or folded.lost or folded.state.newer:
        return None
    if (await store.admin.seals([key]))[0] is not None:
        # What is sealed has left the server.
        return None
    state = _encode(folded.state)
    if len(state) > STATE_BYTES_MAX:
        return None
    stored = await _stored_blocks(store, key)
    blocks = folded.state.settled.blocks() if isinstance(folded.state, SessionState) else {}
    head = _Head(
        code,
        str(folded.position),
        _digest(folded.last.payload),
        _digest(state),
        {number: block.digest for number, block in blocks.items()},
    )
    new = [
        ViewWrite(SNAPSHOTS_VIEW, _field(key, number), block.data)
        for number, block in blocks.items()
        if stored.get(number) != block.digest
    ]
    gone = [ViewWrite(SNAPSHOTS_VIEW, _field(key, number), None) for number in stored if number not in blocks]
    rest = [
        ViewWrite(SNAPSHOTS_VIEW, _field(key, _STATE), state),
        ViewWrite(SNAPSHOTS_VIEW, key.name, msgspec.msgpack.encode(head)),
    ]
    return SnapshotWrites(new, [*gone, *rest])


async def removal_writes(store: Store, key: StreamKey, state: Any) -> list[ViewWrite]:
    """Return the changes that remove the snapshot of a stream, every block that one may have left included.

    `state` is a fold of the stream that is not older than the snapshot.
    """
    numbers = set(await _stored_blocks(store, key))
    if isinstance(state, SessionState):
        numbers.update(range(state.settled.next_number))
    names = (key.name, _field(key, _STATE), *(_field(key, number) for number in sorted(numbers)))
    return [ViewWrite(SNAPSHOTS_VIEW, name, None) for name in names]


async def remove_snapshot(store: Store, key: StreamKey, state: Any) -> None:
    """Remove the snapshot of a stream that takes no new one, unless a projector is at work on its views.

    A snapshot that stays is still bound to its entry. Raises StoreError.
    """
    at = await store.checkpoint(key)
    await store.project(key, at, at, await removal_writes(store, key, state))


async def load_snapshot(store: Store, key: StreamKey, until_version: int) -> Folded[Any] | None:
    """Return the fold of a snapshot, if it is valid and not beyond a version. Raises StoreError, DamageError."""
    if key.kind not in _STATES:
        return None
    found = await store.views.fields(SNAPSHOTS_VIEW, store.partition_of(key), [key.name, _field(key, _STATE)])
    try:
        head, state = _head_of(found[0]), found[1] or b""
        if head is None or head.code != _code_digest() or head.state != _digest(state):
            return None
        position = Position.parse(head.at)
        entry = await entry_at(store, key, position) if position.version <= until_version else None
        if entry is None or _digest(entry.payload) != head.entry:
            return None
        whole = _decode(key, state, await _read_blocks(store, key, head))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError):
        return None
    is_of_entry = (whole.version, whole.last_ms) == (position.version, position.ms)
    return Folded(whole, entry) if is_of_entry and not whole.newer else None


async def _stored_blocks(store: Store, key: StreamKey) -> dict[int, bytes]:
    """Return the digests of the blocks that the present snapshot has."""
    (held,) = await store.views.fields(SNAPSHOTS_VIEW, store.partition_of(key), [key.name])
    try:
        head = _head_of(held)
    except msgspec.MsgspecError:
        return {}
    return {} if head is None else head.blocks


async def _read_blocks(store: Store, key: StreamKey, head: _Head) -> dict[int, bytes]:
    numbers = list(head.blocks)
    blocks: dict[int, bytes] = {}
    for start in range(0, len(numbers), BLOCKS_AT_ONCE_COUNT):
        some = numbers[start : start + BLOCKS_AT_ONCE_COUNT]
        names = [_field(key, number) for number in some]
        found = await store.views.fields(SNAPSHOTS_VIEW, store.partition_of(key), names)
        blocks.update((number, data) for number, data in zip(some, found, strict=True) if data is not None)
    return blocks


def _head_of(held: bytes | None) -> _Head | None:
    return None if held is None else msgspec.msgpack.decode(held, type=_Head)


def _field(key: StreamKey, part: str | int) -> str:
    return pointer(key.name, str(part))


@cache
def _code_digest() -> str | None:
    """Return a digest of the folding code's sources; None where they are not files."""
    whole = sha256()
    try:
        for package in _FOLDING_CODE:
            sources = sorted((one.name, one) for one in files(package).iterdir() if one.name.endswith(".py"))
            for name, source in sources:
                whole.update(f"{package}/{name}\0".encode() + source.read_bytes() + b"\0")
        whole.update(files("ledger.log").joinpath("snapshots.py").read_bytes())
    except OSError:
        return None
    return whole.hexdigest()


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()


def _stored_bytes(state: Any) -> int:
    """Return an estimate of what a snapshot of a state writes anew."""
    size = len(state.grants) * _GRANT_BYTES if isinstance(state, StoredState) else 0
    if isinstance(state, SessionState):
        whole = state.settled.whole_count
        size += len(state.pending) * _PENDING_BYTES + len(state.noted) * _NOTED_BYTES
        size += whole * _WHOLE_BYTES + (len(state.settled) - whole) * _MARK_BYTES
    return size


def _encode(state: StoredState) -> bytes:
    members = {name: getattr(state, name) for name in state.__struct_fields__}
    return msgspec.msgpack.encode({name: _plain(value) for name, value in members.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, PackedMap):
        return value.parts()
    return dict(value.items()) if isinstance(value, HashTrieMap | PendingRequests | Grants) else value


def _decode(key: StreamKey, data: bytes, blocks: dict[int, bytes]) -> StoredState:
    kind, shape = _STATES[key.kind]
    stored = msgspec.msgpack.decode(data, type=shape)
    members = {name: getattr(stored, name) for name in shape.__struct_fields__}
    return kind(**{name: _map_of(name, value, blocks) if name in _MAPS else value for name, value in members.items()})


def _map_of(name: str, value: Any, blocks: dict[int, bytes]) -> Any:
    if isinstance(value, Parts):
        return from_parts(SETTLED_PACKING, value, blocks)
    return _WHOLE.get(name, HashTrieMap)(value)
