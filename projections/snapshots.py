"""Snapshots: the fold of a long stream as of some entry, so that it need not be folded from its first entry again.

A cache, and only projectors use it: no decision rests on one. It counts only if the code that folds is byte for byte
the one that made it, if it is whole, and if the log holds the very entry that it is as of; that entry's chain commits
to all before it. Removing every snapshot changes nothing but the time it takes.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import msgspec
from rpds import HashTrieMap

from ledger.core.events import Settings
from ledger.core.grants import StandingGrant
from ledger.core.policy import PolicySource
from ledger.project.state import ProjectState
from ledger.session.state import Client, LockRequest, Request, SessionState, Settled
from ledger.stores.port import Position, Store, StreamKey, ViewWrite
from projections.folding import Folded
from projections.projection import State
from projections.views import SNAPSHOTS

SNAPSHOT_EVERY_EVENTS: Final = 1000
"""Shorter streams fold in milliseconds."""

SNAPSHOT_BYTES: Final = 8 * 1024 * 1024
"""A larger one costs more to carry about than it saves."""

_FOLDING_CODE: Final = (
    ("ledger.core", "codec.py"),
    ("ledger.core", "events.py"),
    ("ledger.core", "grants.py"),
    ("ledger.project", "state.py"),
    ("ledger.core", "proofs.py"),
    ("ledger.session.would_run", "lines.py"),
    ("ledger.session.would_run", "members.py"),
    ("ledger.session.would_run", "names.py"),
    ("ledger.core", "policy.py"),
    ("ledger.session", "evolve.py"),
    ("ledger.session", "first.py"),
    ("ledger.session", "state.py"),
    ("projections", "snapshots.py"),
)

_MAPS: Final[dict[str, Any]] = {
    "pending": dict[str, Request],
    "settled": dict[str, Settled],
    "grants": dict[str, StandingGrant],
    "clients": dict[str, Client],
    "noted": dict[str, bool],
}
_VALUES: Final[dict[str, Any]] = {
    "settings": Settings,
    "policy": PolicySource | None,
    "lock_request": LockRequest | None,
}


def _shape_of(state: type[State]) -> type[msgspec.Struct]:
    """The same members, with plain dictionaries for the maps, which msgspec does not know."""
    types = {**_MAPS, **_VALUES}
    return msgspec.defstruct(f"_{state.__name__}", [(name, types.get(name, Any)) for name in state.__struct_fields__])


_SHAPES: Final = {"session": _shape_of(SessionState), "project": _shape_of(ProjectState)}
"""The kinds of streams that may grow long; the access stream is short."""


class _Stored(msgspec.Struct, frozen=True):
    """`at` and `entry` are the id and the digest of the entry that `state` is as of."""

    code: str
    at: str
    entry: str
    digest: str
    state: bytes


def snapshot_of(key: StreamKey, folded: Folded) -> ViewWrite | None:
    """The change that keeps a fold, or None when it cannot be kept."""
    code = _code_digest()
    if code is None or key.kind not in _SHAPES:
        return None
    state = _encode(folded.state)
    if len(state) > SNAPSHOT_BYTES:
        return None
    stored = _Stored(code, str(folded.position), _digest(folded.payload), _digest(state), state)
    return ViewWrite(SNAPSHOTS, key.name, msgspec.msgpack.encode(stored))


async def load_snapshot(store: Store, key: StreamKey, until_version: int) -> Folded | None:
    """The fold that a snapshot holds, if it counts and is not beyond a version."""
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
    (entry, *_) = await store.read(key, Position(position.ms, position.version - 1), 1) or (None,)
    if entry is None or entry.position != position or _digest(entry.payload) != stored.entry:
        return None
    return Folded(state, position, entry.payload)


@cache
def _code_digest() -> str | None:
    """Changes with every change of the code that folds; None where the code lies in no files."""
    try:
        code = [files(package).joinpath(name).read_bytes() for package, name in _FOLDING_CODE]
    except OSError:
        return None
    return _digest(b"\0".join(code))


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _encode(state: State) -> bytes:
    members = {name: getattr(state, name) for name in state.__struct_fields__}
    plain = {name: dict(value.items()) if name in _MAPS else value for name, value in members.items()}
    return msgspec.msgpack.encode(plain)


def _decode(key: StreamKey, data: bytes) -> State:
    shape = msgspec.msgpack.decode(data, type=_SHAPES[key.kind])
    members = {name: getattr(shape, name) for name in shape.__struct_fields__}
    whole: dict[str, Any] = {name: HashTrieMap(value) if name in _MAPS else value for name, value in members.items()}
    return SessionState(**whole) if key.kind == "session" else ProjectState(**whole)
