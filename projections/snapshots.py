"""Snapshots: stored folds of long streams as of an entry, from which folding continues.

A cache for projectors: no decision depends on it. A snapshot is used only if it was made by byte for byte the same
folding code, is complete, and if the log has the exact entry that it is as of, whose hash chain commits to all entries
before it. Removing every snapshot only costs time.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import msgspec
from rpds import HashTrieMap

from ledger.core.events import Settings
from ledger.core.grants import Grants, StandingGrant
from ledger.core.packed_map import PackedMap, Parts, from_parts
from ledger.core.policy import PolicySource
from ledger.log.tail import Folded, entry_at
from ledger.project.state import ProjectState
from ledger.session.pending import PendingRequests
from ledger.session.state import SETTLED_PACKING, Client, LockRequest, Request, SessionState, Settled
from ledger.stores.port import Position, Store, StreamKey, ViewWrite
from projections.projection import StreamState
from projections.views import SNAPSHOTS

SNAPSHOT_EVERY_EVENTS: Final = 1000
"""Shorter streams fold in milliseconds."""

SNAPSHOT_BYTES: Final = 8 * 1024 * 1024
"""A larger snapshot costs more to transfer than it saves."""

_FOLDING_CODE: Final = (
    ("ledger.core", "codec.py"),
    ("ledger.core", "events.py"),
    ("ledger.core", "grants.py"),
    ("ledger.core", "packed_map.py"),
    ("ledger.project", "state.py"),
    ("ledger.core", "proofs.py"),
    ("ledger.session.would_run", "lines.py"),
    ("ledger.session.would_run", "members.py"),
    ("ledger.session.would_run", "names.py"),
    ("ledger.core", "policy.py"),
    ("ledger.session", "evolve.py"),
    ("ledger.session", "first.py"),
    ("ledger.session", "open_claims.py"),
    ("ledger.session", "pending.py"),
    ("ledger.session", "redactions.py"),
    ("ledger.session", "state.py"),
    ("projections", "snapshots.py"),
)

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
    "policy": PolicySource | None,
    "lock_request": LockRequest | None,
}


def _shape_of(state: type[StreamState]) -> type[msgspec.Struct]:
    """Return a Struct with the same members, where dictionaries replace the maps that msgspec cannot encode."""
    types = {**_MAPS, **_VALUES}
    return msgspec.defstruct(f"_{state.__name__}", [(name, types.get(name, Any)) for name in state.__struct_fields__])


_SHAPES: Final = {"session": _shape_of(SessionState), "project": _shape_of(ProjectState)}
"""Struct types of the kinds of streams that may grow long; the access stream is short."""


class _Stored(msgspec.Struct, frozen=True):
    """The stored form: `at` and `entry` are id and digest of the entry that `state` is as of."""

    code: str
    at: str
    entry: str
    digest: str
    state: bytes


def snapshot_of(key: StreamKey, folded: Folded[Any]) -> ViewWrite | None:
    """Return the change that stores a fold, or None when it cannot be stored."""
    code = _code_digest()
    if code is None or key.kind not in _SHAPES:
        return None
    state = _encode(folded.state)
    if len(state) > SNAPSHOT_BYTES:
        return None
    stored = _Stored(code, str(folded.position), _digest(folded.last.payload), _digest(state), state)
    return ViewWrite(SNAPSHOTS, key.name, msgspec.msgpack.encode(stored))


async def load_snapshot(store: Store, key: StreamKey, until_version: int) -> Folded[StreamState] | None:
    """Return the fold of a snapshot, if it is valid and not beyond a version."""
    held = await store.view_field(SNAPSHOTS, store.partition_of(key), key.name)
    if held is None or key.kind not in _SHAPES:
        return None
    try:
        stored = msgspec.msgpack.decode(held, type=_Stored)
        position = Position.parse(stored.at)
        whole = stored.digest == _digest(stored.state) and stored.code == _code_digest()
        state = _decode(key, stored.state) if whole and position.version <= until_version else None
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, TypeError):
        return None
    if state is None or state.version != position.version:
        return None
    entry = await entry_at(store, key, position)
    if entry is None or _digest(entry.payload) != stored.entry:
        return None
    return Folded(state, entry)


@cache
def _code_digest() -> str | None:
    """Return a digest of the folding code's sources; None where they are not files."""
    try:
        code = [files(package).joinpath(name).read_bytes() for package, name in _FOLDING_CODE]
    except OSError:
        return None
    return _digest(b"\0".join(code))


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _encode(state: StreamState) -> bytes:
    members = {name: getattr(state, name) for name in state.__struct_fields__}
    return msgspec.msgpack.encode({name: _plain(value) for name, value in members.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, PackedMap):
        return value.parts()
    return dict(value.items()) if isinstance(value, HashTrieMap | PendingRequests | Grants) else value


def _decode(key: StreamKey, data: bytes) -> StreamState:
    shape = msgspec.msgpack.decode(data, type=_SHAPES[key.kind])
    members = {name: getattr(shape, name) for name in shape.__struct_fields__}
    whole = {name: _map_of(name, value) if name in _MAPS else value for name, value in members.items()}
    return SessionState(**whole) if key.kind == "session" else ProjectState(**whole)


def _map_of(name: str, value: Any) -> Any:
    if isinstance(value, Parts):
        return from_parts(SETTLED_PACKING, value)
    return _WHOLE.get(name, HashTrieMap)(value)
